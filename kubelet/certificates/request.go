package certificates

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"net"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/certificate/csr"
	"k8s.io/client-go/util/keyutil"

	"vigil/pki"
)

const (
	// certPatience bounds one attempt to get a certificate: somebody may have to approve it by hand.
	certPatience = 15 * time.Minute
	// certRetry is the time between attempts.
	certRetry = 10 * time.Second
)

// rotationTime is when a new certificate is asked for: after seven to nine tenths of the life, so that many nodes do not ask at
// once. The serial number decides, which is random.
func rotationTime(cert *x509.Certificate) time.Time {
	begin := cert.NotBefore
	if short := 8 * time.Hour; cert.NotAfter.Sub(begin) <= short {
		begin = begin.Add(5 * time.Minute) // signers date certificates back; of a short life that is a large part
	}
	spread := 0.2 * float64(cert.SerialNumber.Bytes()[0]) / 255
	return begin.Add(time.Duration(float64(cert.NotAfter.Sub(begin)) * (0.7 + spread)))
}

// request says which certificate a kubelet asks for, and into which file it goes with its key.
type request struct {
	signer string
	usage  certificatesv1.KeyUsage
	node   string
	names  []string // of a serving certificate
	ips    []net.IP
	file   string
}

// send asks for a certificate, waits until it is signed, and puts it into the file.
func (r request) send(ctx context.Context, client kubernetes.Interface) error {
	ctx, cancel := context.WithTimeout(ctx, certPatience)
	defer cancel()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	subject := pki.NodeSubject(r.node)
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: subject.CommonName, Organization: subject.Organizations},
		DNSNames: r.names, IPAddresses: r.ips,
	}, key)
	if err != nil {
		return err
	}
	usages := []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, r.usage}
	name, uid, err := csr.RequestCertificateWithContext(ctx, client, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), "", r.signer, nil, usages, key)
	if err != nil {
		return fmt.Errorf("ask for a certificate: %w", err)
	}
	cert, err := csr.WaitForCertificate(ctx, client, name, uid)
	if err != nil {
		return fmt.Errorf("wait for certificate %s: %w", name, err)
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	both := append(append([]byte{}, cert...), private...)
	if _, err := tls.X509KeyPair(both, both); err != nil {
		return fmt.Errorf("certificate %s: %w", name, err)
	}
	return pki.WriteFile(r.file, both, 0o600)
}
