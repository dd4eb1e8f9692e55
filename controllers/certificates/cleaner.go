package certificates

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// How long requests are kept, as upstream's: what has been answered, and what nobody has answered or signed.
const (
	keepAnswered   = time.Hour
	keepUnanswered = 24 * time.Hour
)

// Cleaner removes requests that have been answered, that nobody answers, and whose certificate has ended.
type Cleaner struct {
	requests
	now func() time.Time
}

// NewCleaner registers the controller's handlers, so it must be called before the informers run.
func NewCleaner(config Config) *Cleaner {
	return &Cleaner{newRequests(config.withDefaults(), "certificate-cleaner"), time.Now}
}

// Run cleans until ctx ends.
func (c *Cleaner) Run(ctx context.Context) error { return c.run(ctx, 1, c.handle) }

func (c *Cleaner) handle(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (time.Duration, error) {
	if left := due(csr).Sub(c.now()); left > 0 {
		return left, nil
	}
	err := c.client.CertificatesV1().CertificateSigningRequests().Delete(ctx, csr.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &csr.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return 0, fmt.Errorf("delete old request %q: %w", csr.Name, err)
	}
	return 0, nil
}

// due is when a request is removed.
func due(csr *certificatesv1.CertificateSigningRequest) time.Time {
	end := csr.CreationTimestamp.Add(keepUnanswered)
	earlier := func(t time.Time) {
		if t.Before(end) {
			end = t
		}
	}
	issued := len(csr.Status.Certificate) > 0
	if approved := condition(csr, certificatesv1.CertificateApproved); approved != nil {
		end = approved.LastUpdateTime.Add(keepUnanswered)
		if issued {
			end = approved.LastUpdateTime.Add(keepAnswered)
		}
	}
	for _, t := range []certificatesv1.RequestConditionType{certificatesv1.CertificateDenied, certificatesv1.CertificateFailed} {
		if cond := condition(csr, t); cond != nil {
			earlier(cond.LastUpdateTime.Add(keepAnswered))
		}
	}
	if block, _ := pem.Decode(csr.Status.Certificate); block != nil {
		if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
			earlier(cert.NotAfter)
		}
	}
	return end
}
