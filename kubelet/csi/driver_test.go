package csi_test

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"vigil/kubelet/volumes/mount"
)

// driver is a CSI driver whose volumes are directories. Staging one mounts its directory, publishing one mounts what is staged.
type driver struct {
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer

	name string
	dir  string // of the volumes
	can  []csi.NodeServiceCapability_RPC_Type

	mu        sync.Mutex
	calls     []string
	fail      map[string]error // by call
	published *csi.NodePublishVolumeRequest
	stagedBy  *csi.NodeStageVolumeRequest
	told      *registration.RegistrationStatus
}

const driverName = "disks.example.com"

func newDriver(t testing.TB, can ...csi.NodeServiceCapability_RPC_Type) *driver {
	return &driver{name: driverName, dir: t.TempDir(), can: can, fail: map[string]error{}}
}

// serve makes the driver's socket and its registration socket in root; stop takes both away.
func (d *driver) serve(t testing.TB, root string) (stop func()) {
	t.Helper()
	path := filepath.Join(root, "plugins_registry", d.name+"-reg.sock")
	must(t, os.MkdirAll(filepath.Dir(path), 0o750))
	listener, err := net.Listen("unix", path)
	must(t, err)
	server := grpc.NewServer()
	csi.RegisterNodeServer(server, d)
	registration.RegisterRegistrationServer(server, d)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	stop = sync.OnceFunc(func() {
		server.Stop()
		must(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

// note records a call, and returns the error that it is to end with.
func (d *driver) note(call string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, call)
	return d.fail[call]
}

// seen returns the calls since it was called last.
func (d *driver) seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

// fails has a call end with an error; nil: no more.
func (d *driver) fails(call string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail[call] = err
}

func (d *driver) status() *registration.RegistrationStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told
}

// forget has status tell of registrations to come.
func (d *driver) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = nil
}

func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: d.name, SupportedVersions: []string{"1.0.0"}}, nil
}

func (d *driver) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = status
	return &registration.RegistrationStatusResponse{}, nil
}

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId: "machine-7", MaxVolumesPerNode: 16, AccessibleTopology: &csi.Topology{Segments: map[string]string{"topology.example.com/rack": "r1"}},
	}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	answer := &csi.NodeGetCapabilitiesResponse{}
	for _, can := range d.can {
		answer.Capabilities = append(answer.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: can}},
		})
	}
	return answer, nil
}

// volume is the directory of a volume.
func (d *driver) volume(handle string) (string, error) {
	dir := filepath.Join(d.dir, handle)
	return dir, os.MkdirAll(dir, 0o755)
}

// bind mounts source at target, once.
func bind(source, target string, readOnly bool) error {
	if err := os.MkdirAll(target, 0o750); err != nil {
		return err
	}
	if there, err := mount.IsMount(target); err != nil || there {
		return err
	}
	return mount.Bind(source, target, readOnly)
}

func (d *driver) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if err := d.note("stage"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.stagedBy = r
	d.mu.Unlock()
	dir, err := d.volume(r.VolumeId)
	if err == nil {
		err = bind(dir, r.StagingTargetPath, false)
	}
	return &csi.NodeStageVolumeResponse{}, err
}

func (d *driver) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if err := d.note("unstage"); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, mount.Unmount(r.StagingTargetPath)
}

func (d *driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := d.note("publish"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.published = r
	d.mu.Unlock()
	from := r.StagingTargetPath
	if from == "" {
		var err error
		if from, err = d.volume(r.VolumeId); err != nil {
			return nil, err
		}
	}
	if r.VolumeCapability.GetBlock() != nil { // any device will do
		file, err := os.OpenFile(r.TargetPath, os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		return &csi.NodePublishVolumeResponse{}, file.Close()
	}
	return &csi.NodePublishVolumeResponse{}, bind(from, r.TargetPath, r.Readonly)
}

func (d *driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	if err := d.note("unpublish"); err != nil {
		return nil, err
	}
	if err := mount.Unmount(r.TargetPath); err != nil && !errors.Is(err, os.ErrInvalid) {
		return nil, err
	}
	if err := os.Remove(r.TargetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (d *driver) NodeGetVolumeStats(context.Context, *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: 1000, Used: 300, Available: 700}, {Unit: csi.VolumeUsage_INODES, Total: 10, Used: 3, Available: 7},
	}}, nil
}
