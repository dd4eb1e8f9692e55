package certificates

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/informer/workqueue"
	"vigil/pki"
)

// Lives of what is signed, as upstream's.
const (
	defaultDuration = 365 * 24 * time.Hour
	minDuration     = 10 * time.Minute // what a request may ask for at least
	backdate        = 5 * time.Minute  // clocks of other machines may be behind
	shortDuration   = 8 * time.Hour    // lives up to that count from now, not from the earlier begin
)

// SignerConfig says by whom is signed.
type SignerConfig struct {
	Config
	// Authority is the certificate and key that sign; in its files they may change (--cluster-signing-cert-file, -key-file).
	Authority *pki.KeyPair
	// Duration is how long certificates are good at most (--cluster-signing-duration). 0: a year.
	Duration time.Duration
}

// Signer signs approved requests of the built-in signers.
type Signer struct {
	requests
	authority *pki.KeyPair
	duration  time.Duration
	now       func() time.Time
}

// NewSigner registers the controller's handlers, so it must be called before the informers run.
func NewSigner(config SignerConfig) *Signer {
	s := &Signer{
		requests: newRequests(config.withDefaults(), "certificate-signer"), authority: config.Authority, duration: config.Duration, now: time.Now,
	}
	if s.duration == 0 {
		s.duration = defaultDuration
	}
	return s
}

// Run signs until ctx ends.
func (s *Signer) Run(ctx context.Context) error { return s.run(ctx, 5, s.handle) }

// signers are the built-in ones, each with what it refuses to sign.
var signers = map[string]func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error{
	certificatesv1.KubeAPIServerClientSignerName:        func(_ *x509.CertificateRequest, usages []certificatesv1.KeyUsage) error { return apiClient(usages) },
	certificatesv1.KubeAPIServerClientKubeletSignerName: kubeletClient,
	certificatesv1.KubeletServingSignerName:             kubeletServing,
	"kubernetes.io/legacy-unknown":                      func(*x509.CertificateRequest, []certificatesv1.KeyUsage) error { return nil },
}

func (s *Signer) handle(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (time.Duration, error) {
	refuses := signers[csr.Spec.SignerName]
	if refuses == nil || len(csr.Status.Certificate) > 0 || condition(csr, certificatesv1.CertificateFailed) != nil ||
		condition(csr, certificatesv1.CertificateApproved) == nil || condition(csr, certificatesv1.CertificateDenied) != nil {
		return 0, nil
	}
	req, err := parse(csr.Spec.Request)
	if err != nil {
		return 0, workqueue.Terminal(fmt.Errorf("unable to parse csr %q: %w", csr.Name, err))
	}
	if err := refuses(req, csr.Spec.Usages); err != nil {
		csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
			Type: certificatesv1.CertificateFailed, Status: corev1.ConditionTrue, Reason: "SignerValidationFailure", Message: err.Error(),
		})
	} else if csr.Status.Certificate, err = s.sign(req, &csr.Spec); err != nil {
		return 0, fmt.Errorf("sign request %q: %w", csr.Name, err)
	}
	if _, err := s.client.CertificatesV1().CertificateSigningRequests().UpdateStatus(ctx, csr, metav1.UpdateOptions{}); err != nil {
		return 0, fmt.Errorf("answer request %q: %w", csr.Name, err)
	}
	return 0, nil
}

// sign returns the certificate, PEM.
func (s *Signer) sign(req *x509.CertificateRequest, spec *certificatesv1.CertificateSigningRequestSpec) ([]byte, error) {
	if err := req.CheckSignature(); err != nil {
		return nil, fmt.Errorf("unable to verify certificate request signature: %w", err)
	}
	pair := s.authority.Certificate()
	ca, err := x509.ParseCertificate(pair.Certificate[0])
	if err != nil {
		return nil, err
	}
	key, ok := pair.PrivateKey.(crypto.Signer)
	if !ok {
		return nil, errors.New("the authority's key cannot sign")
	}
	usage, extended, err := usages(spec.Usages)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 128))
	if err != nil {
		return nil, err
	}
	begin, end, err := s.life(spec.ExpirationSeconds, ca.NotAfter)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: serial, Subject: subject(req, spec.SignerName),
		DNSNames: req.DNSNames, IPAddresses: req.IPAddresses, EmailAddresses: req.EmailAddresses, URIs: req.URIs,
		NotBefore: begin, NotAfter: end, KeyUsage: usage, ExtKeyUsage: extended, BasicConstraintsValid: true,
	}, ca, req.PublicKey, key)
	if err != nil {
		return nil, err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), nil
}

// subject is whom a certificate is for. A kubelet's is for a name and a group and nothing else, whatever else was asked for; the others have the
// attributes that people have, each once, and not the one that is a user's UID to the API server.
func subject(req *x509.CertificateRequest, signer string) pkix.Name {
	if signer == certificatesv1.KubeAPIServerClientKubeletSignerName || signer == certificatesv1.KubeletServingSignerName {
		return pkix.Name{CommonName: req.Subject.CommonName, Organization: req.Subject.Organization}
	}
	return req.Subject // without its Names: they are only read
}

// life is from when to when a certificate is good that asks for a number of seconds, nil for no wish.
func (s *Signer) life(seconds *int32, authorityEnds time.Time) (begin, end time.Time, err error) {
	d := s.duration
	if seconds != nil {
		d = min(d, max(minDuration, time.Duration(*seconds)*time.Second))
	}
	now := s.now()
	if !now.Before(authorityEnds) {
		return begin, end, fmt.Errorf("refusing to sign a certificate that expired in the past: NotAfter %s", authorityEnds)
	}
	begin = now.Add(-backdate)
	if end = begin.Add(d); d <= shortDuration {
		end = now.Add(d)
	}
	if end.After(authorityEnds) {
		end = authorityEnds
	}
	return begin, end, nil
}

var keyUsages = map[certificatesv1.KeyUsage]x509.KeyUsage{
	certificatesv1.UsageSigning:           x509.KeyUsageDigitalSignature,
	certificatesv1.UsageDigitalSignature:  x509.KeyUsageDigitalSignature,
	certificatesv1.UsageContentCommitment: x509.KeyUsageContentCommitment,
	certificatesv1.UsageKeyEncipherment:   x509.KeyUsageKeyEncipherment,
	certificatesv1.UsageKeyAgreement:      x509.KeyUsageKeyAgreement,
	certificatesv1.UsageDataEncipherment:  x509.KeyUsageDataEncipherment,
	certificatesv1.UsageCertSign:          x509.KeyUsageCertSign,
	certificatesv1.UsageCRLSign:           x509.KeyUsageCRLSign,
	certificatesv1.UsageEncipherOnly:      x509.KeyUsageEncipherOnly,
	certificatesv1.UsageDecipherOnly:      x509.KeyUsageDecipherOnly,
}

var extendedUsages = map[certificatesv1.KeyUsage]x509.ExtKeyUsage{
	certificatesv1.UsageAny:             x509.ExtKeyUsageAny,
	certificatesv1.UsageServerAuth:      x509.ExtKeyUsageServerAuth,
	certificatesv1.UsageClientAuth:      x509.ExtKeyUsageClientAuth,
	certificatesv1.UsageCodeSigning:     x509.ExtKeyUsageCodeSigning,
	certificatesv1.UsageEmailProtection: x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageSMIME:           x509.ExtKeyUsageEmailProtection,
	certificatesv1.UsageIPsecEndSystem:  x509.ExtKeyUsageIPSECEndSystem,
	certificatesv1.UsageIPsecTunnel:     x509.ExtKeyUsageIPSECTunnel,
	certificatesv1.UsageIPsecUser:       x509.ExtKeyUsageIPSECUser,
	certificatesv1.UsageTimestamping:    x509.ExtKeyUsageTimeStamping,
	certificatesv1.UsageOCSPSigning:     x509.ExtKeyUsageOCSPSigning,
	certificatesv1.UsageMicrosoftSGC:    x509.ExtKeyUsageMicrosoftServerGatedCrypto,
	certificatesv1.UsageNetscapeSGC:     x509.ExtKeyUsageNetscapeServerGatedCrypto,
}

func usages(wanted []certificatesv1.KeyUsage) (usage x509.KeyUsage, extended []x509.ExtKeyUsage, err error) {
	seen := map[x509.ExtKeyUsage]bool{}
	for _, u := range wanted {
		if bit, ok := keyUsages[u]; ok {
			usage |= bit
			continue
		}
		e, ok := extendedUsages[u]
		if !ok {
			return 0, nil, fmt.Errorf("unrecognized usage values: %q", u)
		}
		if !seen[e] {
			seen[e] = true
			extended = append(extended, e)
		}
	}
	return usage, extended, nil
}
