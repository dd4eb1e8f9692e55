package csi

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"vigil/kubelet/volumes"
)

// Name is the plug-in's.
const Name = "kubernetes.io/csi"

// paths are where a volume is for a pod, and for the node.
type paths struct {
	published string // where the driver publishes it for the pod
	data      string // directory of the pod's dataFile; for Block the node's
	staged    string // where the driver stages it
	stageData string // directory of the staged volume's dataFile
}

// shared is the directory of what is not a pod's.
func (p *Plugin) shared() string { return filepath.Join(p.root, "plugins", Name) }

func (p *Plugin) pathsOf(at volumes.Place, d data) paths {
	if at.IsBlock {
		devices := filepath.Join(p.shared(), "volumeDevices")
		dir := filepath.Join(devices, at.Name, "data")
		return paths{filepath.Join(devices, "publish", at.Name, string(at.PodUID)), dir, filepath.Join(devices, "staging", at.Name), dir}
	}
	stage := filepath.Join(p.shared(), d.Driver, fmt.Sprintf("%x", sha256.Sum256([]byte(d.Handle))))
	return paths{filepath.Join(at.Dir, "mount"), at.Dir, filepath.Join(stage, "globalmount"), stage}
}

// dataDir is where the data of a place is, which can be told without it.
func (p *Plugin) dataDir(at volumes.Place) string { return p.pathsOf(at, data{}).data }

// all calls f with each volume of a pod that the disk shows.
func (p *Plugin) all(f func(at volumes.Place, d data)) error {
	var failed error
	for _, kind := range []string{"volumes", "volumeDevices"} {
		dirs, err := filepath.Glob(filepath.Join(p.root, "pods", "*", kind, "kubernetes.io~csi", "*"))
		failed = errors.Join(failed, err)
		for _, dir := range dirs {
			at := volumes.Place{Plugin: Name, Name: filepath.Base(dir), Dir: dir, IsBlock: kind == "volumeDevices"}
			d, ok, err := read(p.dataDir(at))
			if ok {
				f(at, d)
			}
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

// shares says that other pods of the node have the volume. When that cannot be told it fails.
func (p *Plugin) shares(at volumes.Place, d data) (bool, error) {
	shared := false
	err := p.all(func(other volumes.Place, of data) {
		shared = shared || other.Dir != at.Dir && other.IsBlock == at.IsBlock && of.same(d) && of.Lifecycle != ephemeral
	})
	return shared, err
}

// removeFile removes a file or an empty directory, which need not be there.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
