package containerd

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"text/template"
)

// configTemplate is containerd's configuration, version 4 (containerd 2.3 and later). Only what differs from the defaults stands here.
// Nothing of it is outside of this daemon's directories, so that daemons do not meet.
var configTemplate = template.Must(template.New("config.toml").Funcs(template.FuncMap{"q": quote}).Parse(`# Written at every start; changes are lost.
version = 4
root = {{q .Data}}
state = {{q .StateDir}}
imports = []
oom_score = {{if .RestrictOOMScore}}0{{else}}-999{{end}}
disabled_plugins = [
  # Snapshotters and file systems that nodes here do not use.
  'io.containerd.snapshotter.v1.blockfile', 'io.containerd.snapshotter.v1.erofs',
  'io.containerd.differ.v1.erofs', 'io.containerd.mount-handler.v1.erofs',
  # Restarting containers is the kubelet's work.
  'io.containerd.monitor.container.v1.restart',
  # These look for programs outside of this daemon's directories.
  'io.containerd.image-verifier.v1.bindir', 'io.containerd.internal.v1.opt',
]

[debug]
level = {{q .LogLevel}}

[plugins.'io.containerd.server.v1.grpc']
address = {{q .Socket}}
[plugins.'io.containerd.server.v1.ttrpc']
address = {{q .TTRPC}}
[plugins.'io.containerd.shim.v1.manager']
socket_dir = {{q .ShimSockets}}
[plugins.'io.containerd.nri.v1.nri']
disable = true
[plugins.'io.containerd.monitor.task.v1.cgroups']
no_prometheus = true
[plugins.'io.containerd.service.v1.diff-service']
sync_fs = true # an image that is said to be there survives a power cut

[plugins.'io.containerd.transfer.v1.local']
config_path = {{q .Registries}}
[[plugins.'io.containerd.transfer.v1.local'.unpack_config]]
platform = {{q .Platform}}
snapshotter = {{q .Snapshotter}}

[plugins.'io.containerd.cri.v1.images']
snapshotter = {{q .Snapshotter}}
image_pull_progress_timeout = '5m0s'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = {{q .SandboxImage}}
[plugins.'io.containerd.cri.v1.images'.registry]
config_path = {{q .Registries}}
{{- range .Auths}}
[plugins.'io.containerd.cri.v1.images'.registry.configs.{{q .Host}}.auth]
username = {{q .Username}}
password = {{q .Password}}
auth = {{q .Auth}}
identitytoken = {{q .IdentityToken}}
{{- end}}

[plugins.'io.containerd.cri.v1.runtime']
max_container_log_line_size = 16384
netns_mounts_under_state_dir = true
enable_unprivileged_ports = true
enable_unprivileged_icmp = true
enable_criu = false
restrict_oom_score_adj = {{.RestrictOOMScore}}
disable_apparmor = {{.NoAppArmor}}
ignore_deprecation_warnings = ['io.containerd.deprecation/cri-registry-configs']
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = [{{q .CNIBinDir}}]
conf_dir = {{q .CNIConfDir}}
use_internal_loopback = true
[plugins.'io.containerd.cri.v1.runtime'.containerd]
default_runtime_name = 'runc'
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = 'io.containerd.runc.v2'
runtime_path = {{q .Shim}}
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
BinaryName = {{q .Runc}}
Root = {{q .RuncRoot}}
SystemdCgroup = false

[plugins.'io.containerd.grpc.v1.cri']
stream_server_address = '127.0.0.1'
stream_server_port = '0'
`))

// toml is the configuration file for a daemon on a machine.
func (c Config) toml(m machine) (string, error) {
	var auths []namedAuth
	if c.Registries != nil {
		auths = c.Registries.auths()
	}
	var out strings.Builder
	err := configTemplate.Execute(&out, map[string]any{
		"Data": c.dataDir(), "StateDir": c.StateDir, "Socket": c.socket(), "TTRPC": c.socket() + ".ttrpc",
		"ShimSockets": c.shimSocketDir(), "Registries": c.registryDir(), "Auths": auths, "SandboxImage": c.SandboxImage,
		"CNIBinDir": c.CNIBinDir, "CNIConfDir": c.CNIConfDir, "LogLevel": c.LogLevel,
		"Shim": c.program("containerd-shim-runc-v2"), "Runc": c.program("runc"), "RuncRoot": c.runcDir(),
		"Platform": "linux/" + runtime.GOARCH, "Snapshotter": m.snapshotter,
		"RestrictOOMScore": m.restrictOOMScore, "NoAppArmor": !m.appArmor,
	})
	if err != nil {
		return "", fmt.Errorf("write containerd's configuration: %w", err)
	}
	return out.String(), nil
}

// machine is what the configuration needs to know of where it will be used.
type machine struct {
	snapshotter      string
	restrictOOMScore bool // this process may not lower OOM scores
	appArmor         bool
}

// quote makes a TOML string of any text; Go's escapes that TOML does not have come of bytes that are not text, which paths and
// credentials are not.
func quote(s string) string { return strconv.Quote(s) }
