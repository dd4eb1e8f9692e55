// Package etcfiles says what the files of the system in a container's root are: its host name, /etc/hosts and /etc/resolv.conf.
//
// Contents, limits and texts are upstream's (pkg/kubelet/kubelet_pods.go, pkg/kubelet/network/dns). The hosts file is written below
// the pod's directory and bind-mounted; what resolv.conf says is handed to the runtime, which writes the file itself.
package etcfiles
