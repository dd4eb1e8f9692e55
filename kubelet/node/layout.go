package node

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"path/filepath"

	"vigil/kubelet/machine"
)

// Dirs has the directories of a data directory's nodes.
func Dirs(dataDir string) string { return filepath.Join(dataDir, "nodes") }

// Dir is where everything is that belongs to a node of a data directory.
func Dir(dataDir, node string) string { return filepath.Join(Dirs(dataDir), node) }

// Cgroups is the cgroup that all nodes of a data directory are in.
func Cgroups(dataDir string) string {
	sum := sha256.Sum256([]byte(filepath.Clean(dataDir)))
	return "/vigil-" + hex.EncodeToString(sum[:4])
}

// Cgroup is the cgroup of one node.
func Cgroup(dataDir, node string) string { return Cgroups(dataDir) + "/" + node }

// RuntimeDir is where the containerd of a node keeps everything. dir is the node's directory.
func RuntimeDir(dir string) string { return filepath.Join(dir, "containerd") }

// Address is the address of a node that is this machine.
func Address() netip.Addr {
	if address := machine.Address(); address.IsValid() {
		return address
	}
	return netip.AddrFrom4([4]byte{127, 0, 0, 1})
}
