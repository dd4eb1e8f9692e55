package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// DataDirVariable names the environment variable that overrides the default data directory.
const DataDirVariable = "VIGIL_DATA_DIR"

// DefaultDataDir is where a cluster keeps everything when nobody says otherwise: $VIGIL_DATA_DIR, /var/lib/vigil for
// root, $XDG_DATA_HOME/vigil or ~/.local/share/vigil for others.
func DefaultDataDir() string {
	if dir := os.Getenv(DataDirVariable); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/lib/vigil"
	}
	if dir := os.Getenv("XDG_DATA_HOME"); dir != "" {
		return filepath.Join(dir, "vigil")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "vigil-data"
	}
	return filepath.Join(home, ".local", "share", "vigil")
}

// lockName is the file in a data directory by which a process has it. Every data directory has one.
const lockName = "vigil.lock"

// errInUse says that another process has a data directory.
var errInUse = errors.New("in use")

// dataDir is a data directory that this process holds alone.
type dataDir struct {
	path string
	lock *os.File
}

// openDataDir makes the directory if need be, checks that it can be written, and locks it. The lock file holds the
// id of the process that has it.
func openDataDir(path string) (*dataDir, error) {
	if path == "" {
		return nil, errors.New("--data-dir is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, explainDataDir(path, err)
	}
	if err := notOthers(path); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, explainDataDir(path, err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			owner := make([]byte, 16)
			n, _ := lock.Read(owner)
			return nil, fmt.Errorf("data directory %s is %w by process %s; stop it or choose another with --data-dir", path, errInUse, strings.TrimSpace(string(owner[:n])))
		}
		return nil, fmt.Errorf("lock data directory %s: %w", path, err)
	}
	err = errors.Join(lock.Truncate(0), writeAt(lock, strconv.Itoa(os.Getpid())+"\n"))
	if err != nil {
		lock.Close()
		return nil, explainDataDir(path, err)
	}
	return &dataDir{path: path, lock: lock}, nil
}

// notOthers refuses a directory that has files and none of a cluster's: vigil reset would remove them. A directory to which certificates or
// data were brought before the first start is fine.
func notOthers(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return explainDataDir(path, err)
	}
	for _, e := range entries {
		if slices.Contains([]string{lockName, "pki", "etcd", "admin.conf", "kubelet.conf", "lost+found"}, e.Name()) {
			return nil
		}
	}
	if len(entries) > 0 {
		return fmt.Errorf("the data directory %s has files of others (%s) and none of a cluster; choose an empty one with --data-dir", path, entries[0].Name())
	}
	return nil
}

func (d *dataDir) Close() error { return d.lock.Close() }

func writeAt(f *os.File, text string) error {
	_, err := f.WriteAt([]byte(text), 0)
	return err
}

func explainDataDir(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("no permission to write the data directory %s; run as its owner or choose another with --data-dir", path)
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("the disk that holds the data directory %s is full; free space on it or choose another with --data-dir", path)
	case errors.Is(err, syscall.EROFS):
		return fmt.Errorf("the data directory %s is on a read-only file system; choose another with --data-dir", path)
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, fs.ErrExist):
		return fmt.Errorf("the data directory %s, or something above it, is a file; choose another with --data-dir", path)
	}
	return fmt.Errorf("open the data directory %s: %w", path, err)
}
