package volumes

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/volumes/mount"
)

// nfs mounts exports of NFS servers. It needs mount.nfs (nfs-common, nfs-utils) on the node, which talks to the server first.
type nfs struct{}

func (nfs) Name() string { return "kubernetes.io/nfs" }

func (nfs) Supports(v *Volume) bool { return nfsSource(v) != nil }

func nfsSource(v *Volume) *corev1.NFSVolumeSource {
	if v.PV != nil {
		return v.PV.Spec.NFS
	}
	return v.Spec.NFS
}

func (nfs) SetUp(ctx context.Context, v *Volume) (Mounted, error) {
	source := nfsSource(v)
	mounted := Mounted{ReadOnly: source.ReadOnly}
	if err := os.MkdirAll(v.Dir, 0o750); err != nil {
		return Mounted{}, err
	}
	there, err := mount.IsMount(v.Dir)
	if err != nil || there {
		return mounted, err
	}
	server := source.Server
	if strings.Contains(server, ":") && !strings.HasPrefix(server, "[") {
		server = "[" + server + "]" // an IPv6 address
	}
	return mounted, runMount(ctx, "nfs", server+":"+source.Path, v.Dir, nfsOptions(v, source))
}

func nfsOptions(v *Volume, source *corev1.NFSVolumeSource) []string {
	var options []string
	if source.ReadOnly || v.ReadOnly {
		options = append(options, "ro")
	}
	if v.PV != nil {
		options = append(options, v.PV.Spec.MountOptions...)
	}
	slices.Sort(options)
	return slices.Compact(options)
}

func (nfs) TearDown(ctx context.Context, p Place) error {
	return RemoveVolume(ctx, p.Dir)
}

// runMount mounts by mount(8), for file systems that need a program of their own. Its error is upstream's (mount-utils).
func runMount(ctx context.Context, fstype, source, target string, options []string) error {
	arguments := []string{"-t", fstype}
	if len(options) > 0 {
		arguments = append(arguments, "-o", strings.Join(options, ","))
	}
	arguments = append(arguments, source, target)
	command := exec.CommandContext(ctx, "mount", arguments...)
	output, err := command.CombinedOutput()
	if err != nil {
		return fmt.Errorf("mount failed: %w\nMounting command: mount\nMounting arguments: %s\nOutput: %s", err, strings.Join(arguments, " "), output)
	}
	return nil
}
