package network

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
)

// confName sorts before what a user may put beside it: the runtime takes the first file.
const confName = "10-vigil.conflist"

type (
	conflist struct {
		CNIVersion string   `json:"cniVersion"`
		Name       string   `json:"name"`
		Plugins    []bridge `json:"plugins"`
	}
	bridge struct {
		Type             string `json:"type"`
		Bridge           string `json:"bridge"`
		IsDefaultGateway bool   `json:"isDefaultGateway"`
		HairpinMode      bool   `json:"hairpinMode"` // a pod may reach itself through a host port
		MTU              int    `json:"mtu"`
		IPAM             ipam   `json:"ipam"`
	}
	ipam struct {
		Type    string        `json:"type"`
		DataDir string        `json:"dataDir"`
		Ranges  [][]ipamRange `json:"ranges"`
	}
	ipamRange struct {
		Subnet netip.Prefix `json:"subnet"`
	}
)

// cniConfig is the configuration for the runtime: plug-ins bridge and host-local (CNI specification 1.0.0).
func cniConfig(bridgeName string, mtu int, cidrs []netip.Prefix, stateDir string) ([]byte, error) {
	b := bridge{
		Type: "bridge", Bridge: bridgeName, IsDefaultGateway: true, HairpinMode: true, MTU: mtu,
		IPAM: ipam{Type: "host-local", DataDir: filepath.Join(stateDir, "addresses")},
	}
	for _, cidr := range cidrs {
		b.IPAM.Ranges = append(b.IPAM.Ranges, []ipamRange{{cidr}})
	}
	text, err := json.MarshalIndent(conflist{CNIVersion: "1.0.0", Name: "vigil", Plugins: []bridge{b}}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode CNI configuration: %w", err)
	}
	return append(text, '\n'), nil
}

// writeFile replaces a file in one step, unless it has that content already. Directories are made.
func writeFile(path string, content []byte) error {
	have, err := os.ReadFile(path)
	if err == nil && bytes.Equal(have, content) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	temporary, err := os.CreateTemp(dir, ".vigil-*")
	if err != nil {
		return err
	}
	defer os.Remove(temporary.Name())
	_, err = temporary.Write(content)
	if err = errors.Join(err, temporary.Chmod(0o644), temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}

// gateway is the bridge's address in a pod network: the first that can be given out, as host-local has it.
func gateway(cidr netip.Prefix) netip.Addr { return cidr.Addr().Next() }
