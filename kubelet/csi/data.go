package csi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"vigil/kubelet/untrusted"
)

// dataFile is the name of the file that tells, beside a volume, what it is.
const dataFile = "vol_data.json"

// dataLimit is how large the file may be, in bytes.
const dataLimit = 1 << 20

// Lifecycle modes in dataFile.
const (
	persistent = "Persistent"
	ephemeral  = "Ephemeral"
)

// data is what TearDown needs. The keys are upstream's (pkg/volume/csi/csi_plugin.go).
type data struct {
	Volume     string `json:"specVolID,omitempty"` // the PersistentVolume's name, or the pod's for the volume
	Handle     string `json:"volumeHandle"`
	Driver     string `json:"driverName"`
	Node       string `json:"nodeName,omitempty"`
	Attachment string `json:"attachmentID,omitempty"` // name of the VolumeAttachment
	Lifecycle  string `json:"volumeLifecycleMode,omitempty"`
	Done       string `json:"published,omitempty"` // SetUp has succeeded; this one is not upstream's
}

// done is the value of data.Done.
const done = "true"

// same says that both are the same volume of the same driver.
func (d data) same(other data) bool { return d.Driver == other.Driver && d.Handle == other.Handle }

// read reads the data in a directory; ok is false when there is none.
func read(dir string) (d data, ok bool, err error) {
	path := filepath.Join(dir, dataFile)
	content, err := untrusted.Read(path, dataLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return d, false, nil
	}
	if err == nil {
		err = json.Unmarshal(content, &d)
	}
	if err != nil {
		return d, false, fmt.Errorf("failed to open volume data file [%s]: %w", path, err)
	}
	return d, true, nil
}

// write leaves the data in a directory, which is made. It is there whole or not at all.
func (d data) write(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	content, err := json.Marshal(d)
	if err != nil {
		return err
	}
	partial := filepath.Join(dir, "."+dataFile)
	if err := os.WriteFile(partial, content, 0o600); err != nil {
		return err
	}
	return os.Rename(partial, filepath.Join(dir, dataFile))
}

// locks are one for each volume: who stages it and who unstages it wait for each other.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	sync.Mutex
	users int
}

// lock waits for a volume and returns what lets go of it.
func (l *locks) lock(key string) (unlock func()) {
	l.mu.Lock()
	one := l.held[key]
	if one == nil {
		one = &lock{}
		l.held[key] = one
	}
	one.users++
	l.mu.Unlock()
	one.Lock()
	return func() {
		one.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(l.held, key)
		}
	}
}
