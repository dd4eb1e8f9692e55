package volumes

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/volumes/internal/contents/contentstest"
)

func tokenVolume(seconds int64) corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(0o644)), Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Audience: "vault", ExpirationSeconds: &seconds, Path: "token"}},
	}}}
}

// claims reads a token's claims.
func claims(t *testing.T, path string) map[string]any {
	t.Helper()
	content, err := os.ReadFile(path)
	must(t, err)
	parts := strings.Split(string(content), ".")
	if len(parts) != 3 {
		t.Fatalf("%q is no token", content)
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	must(t, err)
	var c map[string]any
	must(t, json.Unmarshal(payload, &c))
	return c
}

// TestRunsAs: a debugger that runs as somebody else does not open a pod's tokens to all.
func TestRunsAs(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: &corev1.PodSecurityContext{RunAsUser: new(int64(4242))}, Containers: []corev1.Container{{}}}}
	pod.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
		SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0))},
	}}}
	if f := private(pod, nil); f.Mode != 0o600 || f.User == nil || *f.User != 4242 {
		t.Errorf("mode %v, user %v", f.Mode, f.User)
	}
	pod.Spec.InitContainers = []corev1.Container{{SecurityContext: &corev1.SecurityContext{RunAsUser: new(int64(0))}}}
	if f := private(pod, nil); f.Mode != 0o644 || f.User != nil {
		t.Errorf("with two users: mode %v, user %v", f.Mode, f.User)
	}
}

func TestToken(t *testing.T) {
	w := newWorld(t)
	pod := w.pod("p", func(pod *corev1.Pod) {
		pod.Spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(4242))}
	}, named("v", tokenVolume(1000)))
	w.mount(pod)
	path := filepath.Join(w.paths(pod)["/v"], "token")
	c := claims(t, path)
	bound := c["kubernetes.io"].(map[string]any)["pod"].(map[string]any)
	if c["sub"] != "system:serviceaccount:a:default" || bound["uid"] != string(pod.UID) || c["exp"].(float64)-c["iat"].(float64) != 1000 {
		t.Errorf("claims are %v", c)
	}
	info, err := os.Stat(path)
	must(t, err)
	if info.Mode() != 0o600 || info.Sys().(*syscall.Stat_t).Uid != 4242 {
		t.Errorf("the token has mode %v and owner %d", info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
	}

	w.clock.advance(700 * time.Second)
	w.mount(pod)
	if now := claims(t, path); now["jti"] != c["jti"] {
		t.Error("the token was replaced after 70 % of its life")
	}
	w.clock.advance(100 * time.Second)
	w.manager.signal()
	w.await(pod) // it is time
	w.mount(pod)
	if now := claims(t, path); now["jti"] == c["jti"] {
		t.Error("the token was not replaced after 80 % of its life")
	}
	must(t, w.manager.Unmount(t.Context(), pod.UID))
}

// TestToken_Refused cannot get a new token: the old one is good until it ends.
func TestToken_Refused(t *testing.T) {
	w := newWorld(t)
	pod := w.pod("p", nil, named("v", tokenVolume(1000)))
	w.mount(pod)
	must(t, w.admin.CoreV1().ServiceAccounts("a").Delete(t.Context(), "default", metav1.DeleteOptions{}))
	w.server.Settle(w)
	w.clock.advance(900 * time.Second)
	w.mount(pod)
	w.clock.advance(200 * time.Second)
	w.fails(pod, `MountVolume.SetUp failed for volume "v" : token "default"/"a"/"vault" expired and refresh failed: serviceaccounts "default" not found`)
	if wait := w.manager.due(func(types.UID) { t.Error("a volume that has just failed is due at once") }); wait != firstPause {
		t.Errorf("it is due after %v", wait)
	}
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	stranger := w.pod("q", nil, named("v", tokenVolume(1000)))
	w.fails(stranger, `MountVolume.SetUp failed for volume "v" : failed to fetch token: serviceaccounts "default" not found`)
	must(t, w.manager.Unmount(t.Context(), stranger.UID))
}

// TestToken_AfterADay replaces tokens that live long once a day.
func TestToken_AfterADay(t *testing.T) {
	w := newWorld(t)
	pod := w.pod("p", nil, named("v", tokenVolume(10*24*3600)))
	w.mount(pod)
	path := filepath.Join(w.paths(pod)["/v"], "token")
	before := claims(t, path)["jti"]
	w.clock.advance(23 * time.Hour)
	w.mount(pod)
	if claims(t, path)["jti"] != before {
		t.Error("replaced within a day")
	}
	w.clock.advance(time.Hour)
	w.mount(pod)
	if claims(t, path)["jti"] == before {
		t.Error("not replaced after a day")
	}
	must(t, w.manager.Unmount(t.Context(), pod.UID))
}

// certificate makes a root certificate.
func certificate(t *testing.T, name string) string {
	t.Helper()
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority(t, name)}))
}

func TestTrustBundle(t *testing.T) {
	w := newWorld(t)
	one, two := certificate(t, "one"), certificate(t, "two")
	bundle := func(name, signer, content string, labels map[string]string) {
		t.Helper()
		object := trustBundle(name, signer, content, labels)
		api := w.admin.CertificatesV1().ClusterTrustBundles()
		if old, err := api.Get(t.Context(), name, metav1.GetOptions{}); err == nil {
			object.ResourceVersion = old.ResourceVersion
			_, err = api.Update(t.Context(), object, metav1.UpdateOptions{})
			must(t, err)
			w.server.Settle(w)
			return
		}
		_, err := api.Create(t.Context(), object, metav1.CreateOptions{})
		must(t, err)
	}
	bundle("plain", "", one, nil)
	bundle("example.com:s:a", "example.com/s", one+two, map[string]string{"live": "yes"})
	bundle("example.com:s:b", "example.com/s", two, map[string]string{"live": "yes"})
	bundle("example.com:s:c", "example.com/s", certificate(t, "dead"), map[string]string{"live": "no"})
	source := func(p corev1.ClusterTrustBundleProjection) corev1.VolumeSource {
		p.Path = "roots.pem"
		return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{DefaultMode: new(int32(0o644)), Sources: []corev1.VolumeProjection{{ClusterTrustBundle: &p}}}}
	}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"live": "yes"}}
	pod := w.pod("p", nil,
		named("plain", source(corev1.ClusterTrustBundleProjection{Name: new("plain")})),
		named("signer", source(corev1.ClusterTrustBundleProjection{SignerName: new("example.com/s"), LabelSelector: selector})),
		named("none", source(corev1.ClusterTrustBundleProjection{Name: new("none"), Optional: new(true)})))
	w.mount(pod)
	read := func(volume string) string {
		t.Helper()
		content, err := os.ReadFile(filepath.Join(w.paths(pod)[volume], "roots.pem"))
		must(t, err)
		return string(content)
	}
	if read("/plain") != one || len(read("/signer")) != len(one+two) || !strings.Contains(read("/signer"), two) || read("/none") != "" {
		t.Errorf("bundles are %q, %q, %q", read("/plain"), read("/signer"), read("/none"))
	}
	bundle("plain", "", two, nil)
	w.clock.advance(trustPeriod)
	w.mount(pod)
	if read("/plain") != two {
		t.Error("a bundle that changed is still the old one")
	}
	must(t, w.manager.Unmount(t.Context(), pod.UID))
	missing := w.pod("q", nil, named("v", source(corev1.ClusterTrustBundleProjection{Name: new("none")})))
	w.fails(missing, `MountVolume.SetUp failed for volume "v" : clustertrustbundles.certificates.k8s.io "none" not found`)
	must(t, w.manager.Unmount(t.Context(), missing.UID))
}

// authority makes a certificate that is its own authority, as DER.
func authority(t *testing.T, name string) []byte {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	must(t, err)
	return der
}

func trustBundle(name, signer, content string, labels map[string]string) *certificatesv1.ClusterTrustBundle {
	return &certificatesv1.ClusterTrustBundle{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec:       certificatesv1.ClusterTrustBundleSpec{SignerName: signer, TrustBundle: content},
	}
}

// TestPodCertificate has a signer sign a pod's key, later another one, and then refuse.
func TestPodCertificate(t *testing.T) {
	w := newWorld(t)
	for _, kind := range []string{"ED25519", "ECDSAP256", "RSA3072"} {
		pod := w.pod("p-"+strings.ToLower(kind), nil, named("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
			DefaultMode: new(int32(0o644)), Sources: []corev1.VolumeProjection{{PodCertificate: &corev1.PodCertificateProjection{
				SignerName: "example.com/s", KeyType: kind, CredentialBundlePath: "all.pem", KeyPath: "key.pem", CertificateChainPath: "chain.pem",
			}}},
		}}))
		w.fails(pod, `MountVolume.SetUp failed for volume "v" : credential bundle is not issued yet`)
		first := w.sign(pod)
		w.clock.advance(time.Second)
		w.mount(pod)
		see := contentstest.Files(t, w.paths(pod)["/v"])
		if see["chain.pem"] != first || see["all.pem"] != see["key.pem"]+first {
			t.Errorf("%s: files are %v", kind, see)
		}
		if _, err := tls.X509KeyPair([]byte(see["chain.pem"]), []byte(see["key.pem"])); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
		w.clock.advance(time.Hour)
		w.mount(pod) // asks for the next
		second := w.sign(pod)
		w.clock.advance(pollCertificate)
		w.mount(pod)
		if see := contentstest.Files(t, w.paths(pod)["/v"]); see["chain.pem"] != second || second == first {
			t.Errorf("%s: the certificate was not replaced", kind)
		}
		must(t, w.manager.Unmount(t.Context(), pod.UID))
	}
}

// sign signs the newest request of a pod, and returns the certificate.
func (w *world) sign(pod *corev1.Pod) string {
	w.Helper()
	api := w.admin.CertificatesV1().PodCertificateRequests(pod.Namespace)
	list, err := api.List(w.Context(), metav1.ListOptions{FieldSelector: "spec.podName=" + pod.Name})
	must(w, err)
	for i := range list.Items {
		request := &list.Items[i]
		if len(request.Status.Conditions) > 0 {
			continue
		}
		stub, err := x509.ParseCertificateRequest(request.Spec.StubPKCS10Request)
		must(w, err)
		_, key, err := ed25519.GenerateKey(rand.Reader)
		must(w, err)
		begin := time.Now().Truncate(time.Second)
		template := &x509.Certificate{SerialNumber: big.NewInt(begin.UnixNano()), NotBefore: begin, NotAfter: begin.Add(2 * time.Hour)}
		der, err := x509.CreateCertificate(rand.Reader, template, template, stub.PublicKey, key)
		must(w, err)
		chain := string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
		at := func(d time.Duration) *metav1.Time { return &metav1.Time{Time: begin.Add(d)} }
		request.Status = certificatesv1.PodCertificateRequestStatus{
			CertificateChain: chain, NotBefore: at(0), BeginRefreshAt: at(30 * time.Minute), NotAfter: at(2 * time.Hour),
			Conditions: []metav1.Condition{{Type: "Issued", Status: "True", Reason: "Test", LastTransitionTime: metav1.Now()}},
		}
		_, err = api.UpdateStatus(w.Context(), request, metav1.UpdateOptions{})
		must(w, err)
		w.server.Settle(w)
		return chain
	}
	w.Fatal("there is no request")
	return ""
}

func TestPodCertificate_Denied(t *testing.T) {
	w := newWorld(t)
	pod := w.pod("p", nil, named("v", corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{PodCertificate: &corev1.PodCertificateProjection{SignerName: "example.com/s", KeyType: "ED25519", CredentialBundlePath: "all.pem"}},
	}}}))
	w.fails(pod, `MountVolume.SetUp failed for volume "v" : credential bundle is not issued yet`)
	api := w.admin.CertificatesV1().PodCertificateRequests(pod.Namespace)
	list, err := api.List(t.Context(), metav1.ListOptions{})
	must(t, err)
	list.Items[0].Status.Conditions = []metav1.Condition{{Type: "Denied", Status: "True", Reason: "No", Message: "never", LastTransitionTime: metav1.Now()}}
	_, err = api.UpdateStatus(t.Context(), &list.Items[0], metav1.UpdateOptions{})
	must(t, err)
	w.server.Settle(w)
	w.clock.advance(time.Second)
	w.fails(pod, `MountVolume.SetUp failed for volume "v" : PodCertificateRequest was permanently denied: reason="No" message="never"`)
	must(t, w.manager.Unmount(t.Context(), pod.UID))
}
