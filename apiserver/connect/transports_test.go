package connect

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"testing"
	"time"

	"vigil/pki"
)

func TestIsNodes(t *testing.T) {
	for _, tc := range []struct {
		name    string
		subject pkix.Name
		want    bool
	}{
		{"its own", pkix.Name{CommonName: "system:node:a", Organization: []string{"system:nodes"}}, true},
		{"another's", pkix.Name{CommonName: "system:node:b", Organization: []string{"system:nodes"}}, false},
		{"another's, no organization", pkix.Name{CommonName: "system:node:b"}, false},
		{"of nodes, no name", pkix.Name{Organization: []string{"x", "system:nodes"}}, false},
		{"begins alike", pkix.Name{CommonName: "system:node:a2"}, false},
		{"of others", pkix.Name{CommonName: "a.example.org"}, true},
		{"no subject", pkix.Name{}, true},
	} {
		if err := isNodes([]*x509.Certificate{{Subject: tc.subject}}, "a"); (err == nil) != tc.want {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
	if isNodes(nil, "a") == nil {
		t.Error("no certificate is let through")
	}
}

// TestTransports: each node whose certificate is checked has connections of its own, the others share theirs, and nodes that nobody asks are forgotten.
func TestTransports(t *testing.T) {
	ca, err := pki.NewAuthority("ca", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	file := t.TempDir() + "/ca.crt"
	if err := pki.WriteFile(file, ca.CertPEM(), 0o600); err != nil {
		t.Fatal(err)
	}
	k, err := newKubelets(Kubelets{CAFile: file}, false, nil)
	if err != nil {
		t.Fatal(err)
	}
	a, b := kubelet{node: "a"}, kubelet{node: "b"}
	first := k.transport(a, false)
	if first == k.transport(b, false) || first != k.transport(a, false) {
		t.Error("checked: want one for each node")
	}
	if k.transport(a, true) != k.transport(b, true) || k.transport(a, true) == k.transport(a, false) {
		t.Error("not checked: want one for all")
	}
	if own := (kubelet{node: "a", own: true}); k.transport(own, false) == k.transport(a, false) {
		t.Error("a node that may be this machine shares the connections of one that may not")
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweepLocked(time.Now().Add(2 * sweepPause))
	if len(k.transports) > 0 {
		t.Errorf("%d are kept for nobody", len(k.transports))
	}
}
