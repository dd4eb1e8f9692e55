package certificates

import (
	"context"
	"errors"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/rest"

	"vigil/informer"
)

// ServingDecisions says what keeps a request for a serving certificate from being approved, once the informers have what they need.
func ServingDecisions(informers *informer.Factory, server *rest.Config) func(context.Context, *certificatesv1.CertificateSigningRequest) error {
	s := newServingApproval(informers, server)
	return func(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) error {
		if err := s.waitForSync(ctx); err != nil {
			return err
		}
		req, err := parse(csr.Spec.Request)
		if err != nil {
			return err
		}
		if !isOwnNodeServing(csr, req) {
			return errors.New("not a kubelet's own")
		}
		return s.decide(ctx, req)
	}
}
