// Package csitest has a CSI driver for tests: gRPC over a socket, real mounts, volumes that are directories.
package csitest

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

// Driver is a CSI driver whose volumes are directories. Staging one mounts its directory, publishing one mounts what is staged.
type Driver struct {
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer

	name string
	dir  string // of the volumes
	can  []csi.NodeServiceCapability_RPC_Type

	mu        sync.Mutex
	calls     []string
	fail      map[string]error // by call
	published *csi.NodePublishVolumeRequest
	staged    *csi.NodeStageVolumeRequest
	told      *registration.RegistrationStatus
}

// Name is the driver's.
const Name = "disks.example.com"

// NewDriver makes a driver with these capabilities. Its volumes are in a directory that goes with the test.
func NewDriver(t testing.TB, can ...csi.NodeServiceCapability_RPC_Type) *Driver {
	return &Driver{name: Name, dir: t.TempDir(), can: can, fail: map[string]error{}}
}

// Serve makes the driver's socket and its registration socket in root; stop takes both away.
func (d *Driver) Serve(t testing.TB, root string) (stop func()) {
	t.Helper()
	path := filepath.Join(root, "plugins_registry", d.name+"-reg.sock")
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	csi.RegisterNodeServer(server, d)
	registration.RegisterRegistrationServer(server, d)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	stop = sync.OnceFunc(func() {
		server.Stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// note records a call, and returns the error that it is to end with.
func (d *Driver) note(call string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, call)
	return d.fail[call]
}

// Seen returns the calls since it was called last.
func (d *Driver) Seen() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	calls := d.calls
	d.calls = nil
	return calls
}

// Fails has a call end with an error; nil: no more.
func (d *Driver) Fails(call string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.fail[call] = err
}

// Status is what the kubelet has told of the registration; nil when nothing yet.
func (d *Driver) Status() *registration.RegistrationStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.told
}

// Forget has Status tell of registrations to come.
func (d *Driver) Forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = nil
}

// Staged is the last request to stage a volume, Published the last to publish one.
func (d *Driver) Staged() *csi.NodeStageVolumeRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.staged
}

func (d *Driver) Published() *csi.NodePublishVolumeRequest {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.published
}

// GetInfo implements the service of the name.
func (d *Driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{Type: registration.CSIPlugin, Name: d.name, SupportedVersions: []string{"1.0.0"}}, nil
}

// NotifyRegistrationStatus implements the service of the name.
func (d *Driver) NotifyRegistrationStatus(_ context.Context, status *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.told = status
	return &registration.RegistrationStatusResponse{}, nil
}

// NodeGetInfo implements the service of the name.
func (d *Driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{
		NodeId: "machine-7", MaxVolumesPerNode: 16, AccessibleTopology: &csi.Topology{Segments: map[string]string{"topology.example.com/rack": "r1"}},
	}, nil
}

// NodeGetCapabilities implements the service of the name.
func (d *Driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	answer := &csi.NodeGetCapabilitiesResponse{}
	for _, can := range d.can {
		answer.Capabilities = append(answer.Capabilities, &csi.NodeServiceCapability{
			Type: &csi.NodeServiceCapability_Rpc{Rpc: &csi.NodeServiceCapability_RPC{Type: can}},
		})
	}
	return answer, nil
}

// Volume is the directory of a volume, which is made if need be.
func (d *Driver) Volume(handle string) (string, error) {
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

// NodeStageVolume implements the service of the name.
func (d *Driver) NodeStageVolume(_ context.Context, r *csi.NodeStageVolumeRequest) (*csi.NodeStageVolumeResponse, error) {
	if err := d.note("stage"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.staged = r
	d.mu.Unlock()
	dir, err := d.Volume(r.VolumeId)
	if err == nil {
		err = bind(dir, r.StagingTargetPath, false)
	}
	return &csi.NodeStageVolumeResponse{}, err
}

// NodeUnstageVolume implements the service of the name.
func (d *Driver) NodeUnstageVolume(_ context.Context, r *csi.NodeUnstageVolumeRequest) (*csi.NodeUnstageVolumeResponse, error) {
	if err := d.note("unstage"); err != nil {
		return nil, err
	}
	return &csi.NodeUnstageVolumeResponse{}, mount.Unmount(r.StagingTargetPath)
}

// NodePublishVolume implements the service of the name.
func (d *Driver) NodePublishVolume(_ context.Context, r *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if err := d.note("publish"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.published = r
	d.mu.Unlock()
	from := r.StagingTargetPath
	if from == "" {
		var err error
		if from, err = d.Volume(r.VolumeId); err != nil {
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

// NodeUnpublishVolume implements the service of the name.
func (d *Driver) NodeUnpublishVolume(_ context.Context, r *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
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

// NodeGetVolumeStats implements the service of the name.
func (d *Driver) NodeGetVolumeStats(context.Context, *csi.NodeGetVolumeStatsRequest) (*csi.NodeGetVolumeStatsResponse, error) {
	return &csi.NodeGetVolumeStatsResponse{Usage: []*csi.VolumeUsage{
		{Unit: csi.VolumeUsage_BYTES, Total: 1000, Used: 300, Available: 700}, {Unit: csi.VolumeUsage_INODES, Total: 10, Used: 3, Available: 7},
	}}, nil
}
