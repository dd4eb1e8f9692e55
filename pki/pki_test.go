package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func config(t *testing.T) Config {
	return Config{Dir: t.TempDir(), Server: "https://127.0.0.1:6443", Nodes: []string{"node-1", "node-2"}}
}

func TestEnsure_LaysOutKubeadmsFiles(t *testing.T) {
	c := config(t)
	set, err := Ensure(c)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"pki/ca.crt", "pki/ca.key", "pki/apiserver.crt", "pki/apiserver.key", "pki/apiserver-kubelet-client.crt",
		"pki/front-proxy-ca.crt", "pki/front-proxy-client.key", "pki/etcd/ca.crt", "pki/etcd/server.crt", "pki/etcd/peer.key",
		"pki/etcd/healthcheck-client.crt", "pki/apiserver-etcd-client.crt", "pki/sa.key", "pki/sa.pub",
		"admin.conf", "controller-manager.conf", "scheduler.conf", "kubelet.conf", "nodes/node-2/kubelet.conf"}
	for _, name := range want {
		info, err := os.Stat(filepath.Join(c.Dir, name))
		if err != nil {
			t.Error(err)
			continue
		}
		secret := strings.HasSuffix(name, ".key") || strings.HasSuffix(name, ".conf")
		if secret && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, want 0600", name, info.Mode().Perm())
		}
	}
	again, err := Ensure(c)
	if err != nil {
		t.Fatal(err)
	}
	if len(again.Made) != 0 {
		t.Errorf("a second Ensure made %v", again.Made)
	}
	if !again.Cluster.Cert.Equal(set.Cluster.Cert) {
		t.Error("the certificate authority changed")
	}
}

// TestEnsure_KubeletClient: kubelets see a user who may do nothing elsewhere, also in a data directory from when he was an administrator.
func TestEnsure_KubeletClient(t *testing.T) {
	c := config(t)
	set, err := Ensure(c)
	if err != nil {
		t.Fatal(err)
	}
	former, err := set.Cluster.Issue(Subject{CommonName: KubeletClient, Organizations: []string{"system:masters"}, Client: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := former.save(set.Path("apiserver-kubelet-client")); err != nil {
		t.Fatal(err)
	}
	again, err := Ensure(c)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(again.Made, []string{"pki/apiserver-kubelet-client.crt"}) {
		t.Errorf("made %v", again.Made)
	}
	now, err := load(again.Path("apiserver-kubelet-client"))
	if err != nil {
		t.Fatal(err)
	}
	if got := now.Cert.Subject; got.CommonName != KubeletClient || len(got.Organization) > 0 {
		t.Errorf("the API server is %s to kubelets", got)
	}
}

func TestEnsure_ClientsAndServerTrustEachOther(t *testing.T) {
	c := config(t)
	set, err := Ensure(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		file, user string
		groups     []string
	}{
		{"admin.conf", "kubernetes-admin", []string{"system:masters"}},
		{"controller-manager.conf", "system:kube-controller-manager", nil},
		{"scheduler.conf", "system:kube-scheduler", nil},
		{"kubelet.conf", "system:node:node-1", []string{"system:nodes"}},
		{"nodes/node-2/kubelet.conf", "system:node:node-2", []string{"system:nodes"}},
	} {
		rest, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.Dir, test.file))
		if err != nil {
			t.Fatal(err)
		}
		clientPair, err := tls.X509KeyPair(rest.CertData, rest.KeyData)
		if err != nil {
			t.Fatal(err)
		}
		serverPair, err := tls.LoadX509KeyPair(set.Path("apiserver.crt"), set.Path("apiserver.key"))
		if err != nil {
			t.Fatal(err)
		}
		roots := x509.NewCertPool()
		roots.AddCert(set.Cluster.Cert)
		near, far := net.Pipe()
		server := tls.Server(near, &tls.Config{Certificates: []tls.Certificate{serverPair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots})
		client := tls.Client(far, &tls.Config{Certificates: []tls.Certificate{clientPair}, RootCAs: roots, ServerName: "kubernetes.default.svc"})
		failed := make(chan error, 1)
		go func() { failed <- client.Handshake() }()
		if err := server.Handshake(); err != nil {
			t.Fatalf("%s: server: %v", test.file, err)
		}
		if err := <-failed; err != nil {
			t.Fatalf("%s: client: %v", test.file, err)
		}
		subject := server.ConnectionState().PeerCertificates[0].Subject
		if subject.CommonName != test.user || !slices.Equal(subject.Organization, test.groups) {
			t.Errorf("%s: got %v, want user %s, groups %v", test.file, subject, test.user, test.groups)
		}
		near.Close()
		far.Close()
	}
}

func TestEnsure_RenewsWhatExpiresOrLacksAName(t *testing.T) {
	c := config(t)
	now := time.Now()
	if _, err := ensure(c, now); err != nil {
		t.Fatal(err)
	}
	later, err := ensure(c, now.Add(leafLife-renewBefore(leafLife)+time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(later.Made, "pki/apiserver.crt") || !slices.Contains(later.Made, "admin.conf") {
		t.Errorf("close to expiry only %v were renewed", later.Made)
	}
	if slices.Contains(later.Made, "pki/ca.crt") {
		t.Error("the certificate authority was replaced")
	}
	c.ExtraIPs = []net.IP{net.IPv4(10, 1, 2, 3)}
	more, err := ensure(c, now.Add(leafLife-renewBefore(leafLife)+2*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(more.Made, []string{"pki/apiserver.crt"}) {
		t.Errorf("a new address remade %v, want only the serving certificate", more.Made)
	}
}

// TestEnsure_Kubelets makes serving certificates for kubelets, anew when an address changes, and nothing for nodes that serve nothing.
func TestEnsure_Kubelets(t *testing.T) {
	c := config(t)
	c.Kubelets = []Kubelet{{Node: "node-2", IPs: []net.IP{net.IPv4(192, 0, 2, 7)}}}
	set, err := Ensure(c)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := load(set.Path(KubeletFile("node-2")))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(set.Cluster.Cert)
	_, err = pair.Cert.Verify(x509.VerifyOptions{Roots: roots, DNSName: "192.0.2.7", KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	if err != nil || pair.Cert.Subject.CommonName != "system:node:node-2" || pair.Cert.VerifyHostname("node-2") != nil {
		t.Errorf("%v: %v", pair.Cert.Subject, err)
	}
	c.Kubelets[0].IPs[0] = net.IPv4(192, 0, 2, 8)
	if set, err = Ensure(c); err != nil || !slices.Equal(set.Made, []string{"pki/kubelet/node-2.crt"}) {
		t.Errorf("made %v, %v", set.Made, err)
	}
	if _, err := os.Stat(set.Path(KubeletFile("node-1") + ".crt")); err == nil {
		t.Error("a node without server got a serving certificate")
	}
}

func TestEnsure_RefusesDamage(t *testing.T) {
	for _, file := range []string{"pki/ca.crt", "pki/ca.key", "pki/apiserver.crt", "pki/sa.key", "admin.conf", "pki/etcd/server.key"} {
		t.Run(file, func(t *testing.T) {
			c := config(t)
			if _, err := Ensure(c); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(c.Dir, file)
			if err := os.WriteFile(path, []byte("garbage\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Ensure(c)
			if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
				t.Errorf("got %v, want an ErrDamaged that names %s", err, path)
			}
			if data, _ := os.ReadFile(path); string(data) != "garbage\n" {
				t.Error("the damaged file was overwritten")
			}
		})
	}
}

// What is missing, or was written in part, is made anew where nobody misses the old one, and refused where a cluster has data.
func TestEnsure_Missing(t *testing.T) {
	for _, row := range []struct {
		name string
		lose []string          // files to remove
		put  map[string]string // files to replace with another
		data bool              // the embedded etcd has a database
		made []string          // what Ensure makes
		err  error
		says string // in the error
	}{
		{name: "authority before the first data", lose: []string{"ca.crt", "ca.key"}, made: []string{"pki/ca.crt", "pki/apiserver.crt"}},
		{name: "authority with data", lose: []string{"ca.crt", "ca.key"}, data: true, err: ErrLost, says: "restore both from a backup"},
		{name: "half of an authority before the first data", lose: []string{"ca.crt"}, made: []string{"pki/ca.crt"}},
		{name: "certificate of an authority with data", lose: []string{"ca.crt"}, data: true, err: ErrDamaged, says: "ca.crt is missing"},
		{name: "key of an authority with data", lose: []string{"ca.key"}, data: true, err: ErrDamaged, says: "restore both files from a backup"},
		{name: "key of another authority with data", put: map[string]string{"ca.key": "etcd/ca.key"}, data: true, err: ErrDamaged, says: "does not belong"},
		{name: "etcd's authority with data", lose: []string{"etcd/ca.crt", "etcd/ca.key"}, data: true, err: ErrLost, says: "etcd/ca.crt"},
		{name: "front proxy's authority with data", lose: []string{"front-proxy-ca.crt", "front-proxy-ca.key"}, data: true, made: []string{"pki/front-proxy-ca.crt", "pki/front-proxy-client.crt"}},
		{name: "serving certificate", lose: []string{"apiserver.crt", "apiserver.key"}, data: true, made: []string{"pki/apiserver.crt"}},
		{name: "half of a serving certificate", lose: []string{"apiserver.crt"}, data: true, made: []string{"pki/apiserver.crt"}},
		{name: "other half of a serving certificate", lose: []string{"apiserver.key"}, data: true, made: []string{"pki/apiserver.crt"}},
		{name: "key of another certificate", put: map[string]string{"apiserver.key": "etcd/server.key"}, data: true, made: []string{"pki/apiserver.crt"}},
		{name: "etcd's serving certificate", lose: []string{"etcd/server.crt"}, data: true, made: []string{"pki/etcd/server.crt"}},
		{name: "key of service accounts before the first data", lose: []string{"sa.key"}, made: []string{"pki/sa.key", "pki/sa.pub"}},
		{name: "key of service accounts with data", lose: []string{"sa.key"}, data: true, err: ErrLost, says: "restore it from a backup"},
		{name: "public key of another service account key", put: map[string]string{"sa.pub": "ca.crt"}, data: true, made: []string{"pki/sa.pub"}},
		{name: "private key of service accounts in the place of the public one", put: map[string]string{"sa.pub": "sa.key"}, data: true},
		{name: "public key of service accounts", lose: []string{"sa.pub"}, data: true, made: []string{"pki/sa.pub"}},
	} {
		t.Run(strings.ReplaceAll(row.name, " ", "_"), func(t *testing.T) {
			c := config(t)
			set, err := Ensure(c)
			if err != nil {
				t.Fatal(err)
			}
			if row.data {
				db := filepath.Join(c.Dir, "etcd", "member", "snap", "db")
				if err := errors.Join(os.MkdirAll(filepath.Dir(db), 0o700), os.WriteFile(db, nil, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			for _, file := range row.lose {
				if err := os.Remove(set.Path(file)); err != nil {
					t.Fatal(err)
				}
			}
			for file, from := range row.put {
				other, err := os.ReadFile(set.Path(from))
				if err := errors.Join(err, os.WriteFile(set.Path(file), other, 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			again, err := Ensure(c)
			if !errors.Is(err, row.err) {
				t.Fatalf("got %v, want %v", err, row.err)
			}
			if row.err != nil {
				if !strings.Contains(err.Error(), row.says) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %q, want one sentence that says %q", err, row.says)
				}
				for _, file := range row.lose {
					if _, err := os.Stat(set.Path(file)); !errors.Is(err, fs.ErrNotExist) {
						t.Errorf("%s was made anew (%v)", file, err)
					}
				}
				return
			}
			for _, file := range row.made {
				if !slices.Contains(again.Made, file) {
					t.Errorf("made %v, want also %s", again.Made, file)
				}
			}
			if last, err := Ensure(c); err != nil || len(last.Made) > 0 {
				t.Errorf("the start after that: made %v, %v", last.Made, err)
			}
		})
	}
}

func TestMerge_KeepsOtherContexts(t *testing.T) {
	c := config(t)
	if _, err := Ensure(c); err != nil {
		t.Fatal(err)
	}
	into := filepath.Join(t.TempDir(), "config")
	for _, name := range []string{"first", "second"} {
		if err := Merge(filepath.Join(c.Dir, "admin.conf"), into, name); err != nil {
			t.Fatal(err)
		}
	}
	merged, err := clientcmd.LoadFromFile(into)
	if err != nil {
		t.Fatal(err)
	}
	if merged.CurrentContext != "second" || merged.Contexts["first"] == nil || merged.Clusters["second"].Server != c.Server {
		t.Errorf("got %+v", merged)
	}
}

func TestInspectAndRenew(t *testing.T) {
	config := Config{Dir: t.TempDir(), Server: "https://127.0.0.1:1", Nodes: []string{"n1", "n2"}}
	set, err := Ensure(config)
	if err != nil {
		t.Fatal(err)
	}
	before, err := Inspect(config.Dir)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, f := range before {
		if f.Err != nil || f.Ended(time.Now()) {
			t.Errorf("%s: %v", f.Name, f.Err)
		}
		names[f.Name] = f.Authority
	}
	for name, authority := range map[string]string{
		"pki/ca": "pki/ca", "pki/etcd/ca": "pki/etcd/ca", "pki/apiserver": "pki/ca", "pki/etcd/peer": "pki/etcd/ca",
		"pki/front-proxy-client": "pki/front-proxy-ca", "admin.conf": "pki/ca", "kubelet.conf": "pki/ca", "nodes/n2/kubelet.conf": "pki/ca",
	} {
		if names[name] != authority {
			t.Errorf("%s: signed by %q, want %q", name, names[name], authority)
		}
	}
	if _, err := Renew(config.Dir, "pki/ca"); err == nil {
		t.Error("an authority was renewed")
	}
	renewed, err := Renew(config.Dir)
	if err != nil || len(renewed) != len(before)-len(authorities) {
		t.Errorf("renewed %v: %v", renewed, err)
	}
	after, err := Inspect(config.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, f := range after {
		if old := before[i]; f.Name != old.Name || f.authority() != (f.Cert.SerialNumber.Cmp(old.Cert.SerialNumber) == 0) {
			t.Errorf("%s: serial number %s, before %s", f.Name, f.Cert.SerialNumber, old.Cert.SerialNumber)
		}
	}
	again, err := Ensure(config)
	if err != nil || len(again.Made) > 0 {
		t.Errorf("what was renewed does not do: made %v, %v", again.Made, err)
	}
	if err := os.WriteFile(set.Path("apiserver.crt"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Renew(config.Dir, "pki/apiserver"); err == nil {
		t.Error("a damaged certificate was renewed")
	}
}
