package etcfiles

import (
	"bytes"
	"os"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/untrusted"
)

// hostsPath is where containers have the file.
const hostsPath = "/etc/hosts"

// hostsLimit is how large the node's file may be, in bytes: pods with the node's network get a copy each.
const hostsLimit = 10 << 20

// wantsHosts says whether a container gets the file: not while the pod has no address, and not when the container mounts
// something of its own there.
func wantsHosts(container *corev1.Container, ips []string) bool {
	own := func(m corev1.VolumeMount) bool { return m.MountPath == hostsPath }
	return len(ips) > 0 && !slices.ContainsFunc(container.VolumeMounts, own)
}

// writeHosts brings the file up to date for the pod with these addresses. The file keeps its inode, so that containers which have
// it mounted see the change; when nothing has changed it is not written. The directory must be there.
func writeHosts(file string, pod *corev1.Pod, name Name, ips []string) error {
	content, err := hosts(hostsPath, pod, name, ips)
	if err != nil {
		return err
	}
	if have, err := untrusted.Read(file, int64(len(content))); err == nil && bytes.Equal(have, content) {
		return nil
	}
	return untrusted.Write(file, content, 0o644) // also over what a container has written
}

// readNode reads a file of the node's own, which may be a link, up to a number of bytes.
func readNode(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return untrusted.ReadFrom(file, limit)
}

// hosts makes the content. nodeFile is the node's own, which pods of its network get.
func hosts(nodeFile string, pod *corev1.Pod, name Name, ips []string) ([]byte, error) {
	var b bytes.Buffer
	if pod.Spec.HostNetwork {
		node, err := readNode(nodeFile, hostsLimit)
		if err != nil {
			return nil, err
		}
		b.WriteString("# Kubernetes-managed hosts file (host network).\n")
		b.Write(node)
	} else {
		b.WriteString("# Kubernetes-managed hosts file.\n" +
			"127.0.0.1\tlocalhost\n" +
			"::1\tlocalhost ip6-localhost ip6-loopback\n" +
			"fe00::0\tip6-localnet\n" +
			"fe00::0\tip6-mcastprefix\n" +
			"fe00::1\tip6-allnodes\n" +
			"fe00::2\tip6-allrouters\n")
		for _, ip := range ips {
			b.WriteString(ip + "\t")
			if name.Domain != "" {
				b.WriteString(name.Host + "." + name.Domain + "\t")
			}
			b.WriteString(name.Host + "\n")
		}
	}
	if len(pod.Spec.HostAliases) > 0 {
		b.WriteString("\n# Entries added by HostAliases.\n")
	}
	for _, alias := range pod.Spec.HostAliases {
		b.WriteString(alias.IP)
		for _, host := range alias.Hostnames {
			b.WriteString("\t" + host)
		}
		b.WriteByte('\n')
	}
	return b.Bytes(), nil
}
