package containerd

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/distribution/reference"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc/backoff"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet/containerd/internal/archive"
)

// namespace is the one of containerd's namespaces in which the Container Runtime Interface keeps images.
const namespace = "k8s.io"

// quickBackoff is for a server that is about to start on this machine.
var quickBackoff = backoff.Config{BaseDelay: 10 * time.Millisecond, Multiplier: 1.2, MaxDelay: 100 * time.Millisecond}

// Load imports the images that come with the runtime (images/*.tar in BinDir), and those of further archives, if they are not there
// yet: looking takes milliseconds. They are pinned: image collection leaves them alone.
func (d *Daemon) Load(ctx context.Context, files ...string) error {
	shipped, err := filepath.Glob(filepath.Join(d.config.BinDir, "images", "*.tar"))
	if err != nil {
		return fmt.Errorf("list the images that come with the runtime: %w", err)
	}
	have, err := d.images(ctx)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, file := range append(shipped, files...) {
		g.Go(func() error {
			images, err := archive.Read(file, runtime.GOARCH)
			if err != nil || !missing(images, have) {
				return err
			}
			return d.importFile(ctx, file, images, "io.cri-containerd.pinned=pinned")
		})
	}
	return g.Wait()
}

// missing says whether one of images is not among have, name by name, or is another one there.
func missing(images []archive.Image, have map[string]string) bool {
	for _, image := range images {
		if image.Name == "" || image.ID == "" || have[image.Name] != image.ID {
			return true
		}
	}
	return false
}

// images maps names of the images on the node to their IDs.
func (d *Daemon) images(ctx context.Context) (map[string]string, error) {
	list, err := d.List(ctx)
	if err != nil {
		return nil, err
	}
	have := map[string]string{}
	for _, image := range list {
		for _, name := range image.RepoTags {
			have[name] = image.Id
		}
	}
	return have, nil
}

// List gives the images on the node.
func (d *Daemon) List(ctx context.Context) ([]*runtimeapi.Image, error) {
	conn, err := d.dial()
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	response, err := runtimeapi.NewImageServiceClient(conn).ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	return response.Images, nil
}

// Import brings the images of an archive to the node, replacing those of the same names, and returns their names as a pod would
// write them. The archive is an OCI image layout or what docker save writes, compressed or not.
func (d *Daemon) Import(ctx context.Context, file string) ([]string, error) {
	images, err := archive.Read(file, runtime.GOARCH)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, image := range images {
		if image.Name != "" {
			names = append(names, Familiar(image.Name))
		}
	}
	if len(names) == 0 {
		return nil, fmt.Errorf("%s: no image in it has a name; save it by its name, not by its ID", file)
	}
	return names, d.importFile(ctx, file, images)
}

// importFile has ctr import an archive. containerd's client stays out of this binary, and ctr does what it would.
func (d *Daemon) importFile(ctx context.Context, file string, images []archive.Image, labels ...string) error {
	p := d.running.Load()
	if p == nil {
		return ErrNotRunning
	}
	args := []string{"--address", d.config.socket(), "--namespace", namespace, "images", "import", "--local", "--snapshotter", p.Snapshotter}
	for _, label := range labels {
		args = append(args, "--label", label)
	}
	command := exec.CommandContext(ctx, d.config.program("ctr"), append(args, file)...)
	var errOut bytes.Buffer
	command.Stderr = &errOut
	began := time.Now()
	if err := command.Run(); err != nil {
		return fmt.Errorf("import %s: %w: %s", file, err, strings.TrimPrefix(strings.TrimSpace(errOut.String()), "ctr: "))
	}
	if err := d.awaitImages(ctx, images); err != nil {
		return fmt.Errorf("import %s: %w", file, err)
	}
	d.log.Info("the kubelet imported images from a file", "file", file, "took", time.Since(began).Round(time.Millisecond))
	return nil
}

// awaitImages returns when the runtime interface knows what was imported: it hears of it by an event.
func (d *Daemon) awaitImages(ctx context.Context, images []archive.Image) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		have, err := d.images(ctx)
		if err != nil {
			return err
		}
		known := true
		for _, image := range images {
			known = known && (image.Name == "" || have[image.Name] != "" && (image.ID == "" || have[image.Name] == image.ID) || strings.Contains(image.Name, "@"))
		}
		if known {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the runtime does not show the images: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

// Familiar is an image's name as people write it in a pod: without what normalising adds.
func Familiar(name string) string {
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return name
	}
	return strings.TrimSuffix(reference.FamiliarString(named), ":latest")
}
