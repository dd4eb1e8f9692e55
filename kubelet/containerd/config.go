package containerd

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
)

// SandboxImage is the image of the process that holds a pod's namespaces. The runtime module builds it.
const SandboxImage = "vigil.internal/pause:1"

// maxSocketDir is how long the path of the directory of shims' sockets may be: their names have 65 characters, and the address of
// a Unix socket has room for 107.
const maxSocketDir = 42

// Config says how containerd is run. BinDir and RootDir are required.
type Config struct {
	BinDir  string // the programs containerd, containerd-shim-runc-v2, ctr and runc, cni/ and images/
	RootDir string // what lasts: images, containers' file systems, this daemon's configuration and log
	// StateDir is what does not outlive the machine: sockets, bundles, network namespaces. "": a directory in /run/vigil named after
	// RootDir. It is at most 40 characters long, because sockets are in it.
	StateDir string

	CNIConfDir string // where the network's configuration will be; "": cni in RootDir
	CNIBinDir  string // "": cni in BinDir

	SandboxImage string      // "": SandboxImage
	Snapshotter  string      // "": overlayfs where it can be mounted, else native
	Registries   *Registries // mirrors and credentials; nil: none
	LogLevel     string      // of containerd: trace, debug, info, warn, error; "": info
	LogSize      int64       // bytes after which containerd's log is put aside; there are at most two; 0: 16 MiB
	Logger       *slog.Logger
}

// DefaultStateDir is the state directory of a daemon with this root directory.
func DefaultStateDir(rootDir string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(rootDir)))
	return filepath.Join("/run/vigil", hex.EncodeToString(sum[:4]))
}

func (c Config) withDefaults() (Config, error) {
	if c.BinDir == "" || c.RootDir == "" {
		return c, errors.New("containerd: BinDir and RootDir are required")
	}
	for _, dir := range []*string{&c.BinDir, &c.RootDir} {
		absolute, err := filepath.Abs(*dir)
		if err != nil {
			return c, fmt.Errorf("containerd: %w", err)
		}
		*dir = absolute
	}
	if c.StateDir == "" {
		c.StateDir = DefaultStateDir(c.RootDir)
	}
	if dir := c.shimSocketDir(); len(dir) > maxSocketDir {
		return c, fmt.Errorf("containerd: state directory %s is too long for the sockets in it: %d characters, at most %d", c.StateDir, len(c.StateDir), maxSocketDir-2)
	}
	if c.CNIConfDir == "" {
		c.CNIConfDir = filepath.Join(c.RootDir, "cni")
	}
	if c.CNIBinDir == "" {
		c.CNIBinDir = filepath.Join(c.BinDir, "cni")
	}
	if c.SandboxImage == "" {
		c.SandboxImage = SandboxImage
	}
	if c.LogLevel == "" {
		c.LogLevel = "info"
	}
	if c.LogSize == 0 {
		c.LogSize = 16 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Files of a daemon. RootDir:
//
//	config.toml       containerd's configuration, written at every start
//	containerd.log    its log, containerd.log.1 the one before
//	process.json      the process, so that it can be found again
//	certs.d/          a directory for each registry that has mirrors or certificates
//	cni/              the network's configuration, unless elsewhere
//	data/             what containerd keeps
func (c Config) program(name string) string { return filepath.Join(c.BinDir, name) }
func (c Config) configFile() string         { return filepath.Join(c.RootDir, "config.toml") }
func (c Config) logFile() string            { return filepath.Join(c.RootDir, "containerd.log") }
func (c Config) processFile() string        { return filepath.Join(c.RootDir, "process.json") }
func (c Config) registryDir() string        { return filepath.Join(c.RootDir, "certs.d") }
func (c Config) dataDir() string            { return filepath.Join(c.RootDir, "data") }
func (c Config) socket() string             { return filepath.Join(c.StateDir, "containerd.sock") }
func (c Config) shimSocketDir() string      { return filepath.Join(c.StateDir, "s") }
func (c Config) runcDir() string            { return filepath.Join(c.StateDir, "runc") }

// check says what of the runtime is missing.
func (c Config) check() error {
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"} {
		if _, err := os.Stat(c.program(name)); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("the container runtime is not complete: %s is missing; `make runtime` builds it", c.program(name))
		} else if err != nil {
			return fmt.Errorf("the container runtime: %w", err)
		}
	}
	return nil
}
