package main

import (
	"time"

	"github.com/spf13/pflag"

	"vigil/cluster"
)

// addKubeletClient adds kube-apiserver's flags about how kubelets are reached.
func addKubeletClient(flags *pflag.FlagSet, c *cluster.KubeletClientConfig) {
	flags.StringSliceVar(&c.PreferredAddressTypes, "kubelet-preferred-address-types", []string{"Hostname", "InternalDNS", "InternalIP", "ExternalDNS", "ExternalIP"}, "which of a node's addresses its kubelet is reached at, the first that it has")
	flags.StringVar(&c.CertFile, "kubelet-client-certificate", "", "client certificate for kubelets, PEM")
	flags.StringVar(&c.KeyFile, "kubelet-client-key", "", "key of the client certificate for kubelets, PEM")
	flags.StringVar(&c.CAFile, "kubelet-certificate-authority", "", "CA that signs kubelets' serving certificates, PEM; without it they are not checked")
	flags.DurationVar(&c.Timeout, "kubelet-timeout", 5*time.Second, "bound of connecting to a kubelet")
}
