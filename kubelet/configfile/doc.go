// Package configfile reads files of kind KubeletConfiguration (kubelet.config.k8s.io/v1beta1), as --config of a kubelet names them and
// kubeadm writes them.
//
// What a file says is turned into flags (File.Flags), which are the one way to configure a kubelet here: a flag that was given wins over the
// file because it is not set again. What has no flag has no effect; File.Ignored names it.
package configfile
