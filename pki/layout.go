package pki

import (
	"net"
	"os"
	"path/filepath"
	"time"
)

// Config says for whom certificates are made.
type Config struct {
	Dir string // the data directory; certificates go to Dir/pki

	// Server is the URL that kubeconfigs point at: "https://127.0.0.1:6443".
	Server string
	// ServiceIP is the address of the kubernetes Service, the first of the service range. Nil: 10.96.0.1.
	ServiceIP net.IP
	// ClusterDomain ends the DNS names of Services. "": cluster.local.
	ClusterDomain string
	// ExtraNames are further names and addresses by which the API server is reached.
	ExtraNames []string
	// ExtraIPs are further addresses by which the API server is reached.
	ExtraIPs []net.IP
	// Nodes are the names of nodes that get a kubeconfig.
	Nodes []string
	// Kubelets are the nodes whose kubelets serve, and so get a certificate for it: KubeletFile(name).
	Kubelets []Kubelet

	// Life is how long certificates are good that are no authority. 0: a year. They are replaced a month before their end, or in
	// the last third of a shorter life.
	Life time.Duration
}

// Kubelet is a node by its name and the addresses under which its kubelet is reached.
type Kubelet struct {
	Node string
	IPs  []net.IP
}

func (c Config) withDefaults() Config {
	if c.ServiceIP == nil {
		c.ServiceIP = net.IPv4(10, 96, 0, 1)
	}
	if c.ClusterDomain == "" {
		c.ClusterDomain = "cluster.local"
	}
	return c
}

// Names of the authorities' files, relative to the pki directory, without extension.
const (
	clusterCA    = "ca"
	etcdCA       = "etcd/ca"
	frontProxyCA = "front-proxy-ca"
)

var authorities = []struct{ file, commonName string }{
	{clusterCA, "kubernetes"},
	{etcdCA, "etcd-ca"},
	{frontProxyCA, "front-proxy-ca"},
}

// KubeletClient is the user that the API server is to kubelets. With kubeadm it is in a group that may do everything; here it has the rights
// of a role and no more, so that whoever turns a request of the API server's to itself gains nothing.
const KubeletClient = "kube-apiserver-kubelet-client"

type leaf struct {
	file    string // relative to the pki directory, without extension
	ca      string
	subject Subject
}

// leaves lists every certificate that is kept as a file. Names and subjects are kubeadm's
// (kubeadm/app/phases/certs, "Certificates and requirements").
func leaves(c Config) []leaf {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	loopback := []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	etcdServer := Subject{CommonName: host, DNSNames: []string{host, "localhost"}, IPs: loopback, Server: true, Client: true}
	client := func(name string, organizations ...string) Subject {
		return Subject{CommonName: name, Organizations: organizations, Client: true}
	}
	rows := []leaf{
		{"apiserver", clusterCA, Subject{
			CommonName: "kube-apiserver",
			DNSNames: append([]string{host, "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc",
				"kubernetes.default.svc." + c.ClusterDomain}, c.ExtraNames...),
			IPs:    append(append([]net.IP{c.ServiceIP}, loopback...), c.ExtraIPs...),
			Server: true,
		}},
		{"apiserver-kubelet-client", clusterCA, client(KubeletClient)},
		{"front-proxy-client", frontProxyCA, client("front-proxy-client")},
		{"etcd/server", etcdCA, etcdServer},
		{"etcd/peer", etcdCA, etcdServer},
		{"etcd/healthcheck-client", etcdCA, client("kube-etcd-healthcheck-client")},
		{"apiserver-etcd-client", etcdCA, client("kube-apiserver-etcd-client")},
	}
	for _, k := range c.Kubelets {
		subject := NodeSubject(k.Node)
		subject.Client, subject.Server, subject.DNSNames, subject.IPs = false, true, []string{k.Node}, k.IPs
		rows = append(rows, leaf{KubeletFile(k.Node), clusterCA, subject})
	}
	return rows
}

// KubeletFile is the place of a kubelet's serving certificate and key, relative to the pki directory and without extension.
func KubeletFile(node string) string { return "kubelet/" + node }

type identity struct {
	file    string // relative to the data directory
	user    string // name of the user entry in the kubeconfig
	subject Subject
}

// identities lists every client of the API server that gets a kubeconfig.
func identities(c Config) []identity {
	rows := []identity{
		{"admin.conf", "kubernetes-admin", Subject{CommonName: "kubernetes-admin", Organizations: []string{"system:masters"}, Client: true}},
		{"controller-manager.conf", "system:kube-controller-manager", Subject{CommonName: "system:kube-controller-manager", Client: true}},
		{"scheduler.conf", "system:kube-scheduler", Subject{CommonName: "system:kube-scheduler", Client: true}},
	}
	for i, node := range c.Nodes {
		rows = append(rows, identity{NodeConfig(i, node), "system:node:" + node, NodeSubject(node)})
	}
	return rows
}

// NodeConfig is the place of the kubeconfig of the i-th node, relative to the data directory.
func NodeConfig(i int, node string) string {
	if i == 0 {
		return "kubelet.conf"
	}
	return filepath.Join("nodes", node, "kubelet.conf")
}

// NodeSubject is who a kubelet is to the API server: the Node authorizer goes by it.
func NodeSubject(node string) Subject {
	return Subject{CommonName: "system:node:" + node, Organizations: []string{"system:nodes"}, Client: true}
}
