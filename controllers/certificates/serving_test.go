package certificates_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver/apiservertest"
	"vigil/controllers/certificates"
	"vigil/informer"
	"vigil/pki"
)

// TestApprover_Serving: a kubelet gets a serving certificate for what is its own alone.
func TestApprover_Serving(t *testing.T) {
	s := apiservertest.Start(t)
	admin := s.Clientset()
	const clusterIP = "10.96.0.1" // the API server's, as pods know it
	nodes := map[string][]corev1.NodeAddress{
		"n1": {{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.9"}, {Type: corev1.NodeInternalIP, Address: "192.0.2.5"},
			{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}, {Type: corev1.NodeHostName, Address: "elsewhere"},
			{Type: corev1.NodeInternalIP, Address: clusterIP}, {Type: corev1.NodeExternalIP, Address: "203.0.113.7"}},
		"n2": {{Type: corev1.NodeInternalIP, Address: "192.0.2.2"}, {Type: corev1.NodeExternalIP, Address: "192.0.2.9"}},
		// Whoever joins chooses his node's name.
		"kubernetes": nil, "localhost": nil, "kubernetes.default": nil, "new.default.svc.cluster.local": nil, "n3.example.net": nil, "balancer.example.net": nil,
		"api.of.example.org": nil,
	}
	for name, addresses := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Addresses: addresses}}
		if _, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := admin.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err := admin.DiscoveryV1().EndpointSlices("default").Create(t.Context(), &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Name: "kubernetes", Labels: map[string]string{discoveryv1.LabelServiceName: "kubernetes"}},
		AddressType: discoveryv1.AddressTypeIPv4, Endpoints: []discoveryv1.Endpoint{{Addresses: []string{"192.0.2.5"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.CoreV1().Services("default").Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes"}, Spec: corev1.ServiceSpec{ClusterIP: clusterIP, Ports: []corev1.ServicePort{{Port: 443}}},
	}, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	clients := map[string]*kubernetes.Clientset{}
	for name := range nodes {
		if clients[name], err = kubernetes.NewForConfig(s.Client("system:node:"+name, "system:nodes")); err != nil {
			t.Fatal(err)
		}
	}
	requests := map[string]struct {
		by       string
		template x509.CertificateRequest
		approved bool
	}{
		"own":              {"n1", x509.CertificateRequest{DNSNames: []string{"n1"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}, true},
		"address-only":     {"n1", x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}, true},
		"of-another-node":  {"n2", x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}, false},
		"of-both":          {"n1", x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(192, 0, 2, 9)}}, false},
		"of-api-server":    {"n1", x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(192, 0, 2, 5)}}, false},
		"one-of-nobody":    {"n1", x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1), net.IPv4(192, 0, 2, 77)}}, false},
		"loopback":         {"n1", x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}, false},
		"another-name":     {"n1", x509.CertificateRequest{DNSNames: []string{"n1", "kubernetes.default.svc"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}, false},
		"name-it-gave":     {"n1", x509.CertificateRequest{DNSNames: []string{"elsewhere"}}, false},
		"in-another-name":  {"n2", x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1"}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}, false},
		"of-a-service":     {"n1", x509.CertificateRequest{IPAddresses: []net.IP{net.ParseIP(clusterIP)}}, false},
		"as-kubernetes":    {"kubernetes", x509.CertificateRequest{DNSNames: []string{"kubernetes"}}, false},
		"as-localhost":     {"localhost", x509.CertificateRequest{DNSNames: []string{"localhost"}}, false},
		"as-a-service":     {"kubernetes.default", x509.CertificateRequest{DNSNames: []string{"kubernetes.default"}}, false},
		"as-one-to-come":   {"new.default.svc.cluster.local", x509.CertificateRequest{DNSNames: []string{"new.default.svc.cluster.local"}}, false},
		"of-a-balancer":    {"n1", x509.CertificateRequest{DNSNames: []string{"n1"}, IPAddresses: []net.IP{net.IPv4(203, 0, 113, 7)}}, false},
		"as-a-balancer":    {"balancer.example.net", x509.CertificateRequest{DNSNames: []string{"balancer.example.net"}}, false},
		"as-any-server":    {"api.of.example.org", x509.CertificateRequest{DNSNames: []string{"api.of.example.org"}}, false},
		"with-dots":        {"n3.example.net", x509.CertificateRequest{DNSNames: []string{"n3.example.net"}}, true},
		"zz-asked-as-last": {"n2", x509.CertificateRequest{IPAddresses: []net.IP{net.IPv4(192, 0, 2, 2)}}, true},
	}
	for name, r := range requests {
		template := r.template
		if template.Subject.CommonName == "" {
			template.Subject.CommonName = "system:node:" + r.by
		}
		template.Subject.Organization = []string{"system:nodes"}
		_, err := clients[r.by].CertificatesV1().CertificateSigningRequests().Create(t.Context(), &certificatesv1.CertificateSigningRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: certificatesv1.CertificateSigningRequestSpec{
				SignerName: certificatesv1.KubeletServingSignerName, Request: request(t, &template), Usages: []certificatesv1.KeyUsage{serving, digital},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	informers, err := informer.NewFactory(s.Admin(), informer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	decided := certificates.ServingDecisions(informers, behindBalancer(t))
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- informers.Run(ctx) }()
	for name, r := range requests {
		csr, err := admin.CertificatesV1().CertificateSigningRequests().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := decided(ctx, csr); (err == nil) != r.approved {
			t.Errorf("%s: %v", name, err)
		}
	}
	stop()
	<-ran
}

// behindBalancer is how an API server is reached that is known by the name and address of a balancer, too.
func behindBalancer(t *testing.T) *rest.Config {
	t.Helper()
	authority, err := pki.NewAuthority("kubernetes", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Issue(pki.Subject{
		CommonName: "kube-apiserver", Server: true, DNSNames: []string{"balancer.example.net", "*.of.example.org"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(203, 0, 113, 7)},
	}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{pair.Cert.Raw}, PrivateKey: pair.Key}}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL, TLSClientConfig: rest.TLSClientConfig{CAData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Cert.Raw})}}
}

// TestApprover_ServingBeforeNode: a kubelet that asks before its Node is there is heard when it comes.
func TestApprover_ServingBeforeNode(t *testing.T) {
	s := apiservertest.Start(t)
	admin := s.Clientset()
	informers, err := informer.NewFactory(s.Admin(), informer.Config{})
	if err != nil {
		t.Fatal(err)
	}
	approver := certificates.NewApprover(certificates.Config{Server: s.Admin(), Client: admin, Informers: informers})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	running.Go(func() { _ = informers.Run(ctx) })
	running.Go(func() { _ = approver.Run(ctx) })
	kubelet, err := kubernetes.NewForConfig(s.Client("system:node:n1", "system:nodes"))
	if err != nil {
		t.Fatal(err)
	}
	requests := kubelet.CertificatesV1().CertificateSigningRequests()
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: "system:node:n1", Organization: []string{"system:nodes"}}, IPAddresses: []net.IP{net.IPv4(192, 0, 2, 1)}}
	if _, err := requests.Create(ctx, &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		SignerName: certificatesv1.KubeletServingSignerName, Request: request(t, template), Usages: []certificatesv1.KeyUsage{serving, digital},
	}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	watch, err := requests.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Stop()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "192.0.2.1"}}}}
	if _, err := admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for e := range watch.ResultChan() {
		if csr, ok := e.Object.(*certificatesv1.CertificateSigningRequest); ok && len(csr.Status.Conditions) > 0 {
			if c := csr.Status.Conditions[0]; c.Type != certificatesv1.CertificateApproved {
				t.Errorf("%+v", c)
			}
			return
		}
	}
	t.Error("the watch ended")
}
