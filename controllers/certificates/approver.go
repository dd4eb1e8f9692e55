package certificates

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"strings"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer"
	"vigil/informer/workqueue"
)

// Approver approves requests for kubelets' client certificates, when whoever asks may create
// certificatesigningrequests/selfnodeclient (for the identity it has) or /nodeclient (for any node), and a kubelet's own
// requests for serving certificates with names and addresses that are its alone (see serving.go).
type Approver struct {
	requests
	serving *servingApproval
	logger  *slog.Logger
}

// personPatience is after what time a serving certificate is looked at again that is left to a person, beside when its node changes.
const personPatience = time.Minute

// NewApprover registers the controller's handlers, so it must be called before the informers run.
func NewApprover(config Config) *Approver {
	config = config.withDefaults()
	a := &Approver{newRequests(config, "certificate-approver"), newServingApproval(config.Informers, config.Server), config.Logger}
	changed := func(node *informer.Object) {
		for name := range a.serving.due(node.Name()) {
			a.queue.Add(types.NamespacedName{Name: name})
		}
	}
	a.serving.nodes.Informer().AddHandler(informer.EventHandler{
		OnAdd:    func(o *informer.Object, _ bool) { changed(o) },
		OnUpdate: func(_, o *informer.Object) { changed(o) },
	})
	return a
}

// Run approves until ctx ends.
func (a *Approver) Run(ctx context.Context) error {
	if err := a.serving.waitForSync(ctx); err != nil {
		return err
	}
	return a.run(ctx, 5, a.handle)
}

// recognized is a sort of request that may be approved, the narrow one first.
var recognized = []struct {
	is          func(csr *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest) bool
	subresource string // that the requestor has to be allowed to create
	message     string
}{
	{isOwnNodeClient, "selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."},
	{isNodeClient, "nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."},
}

func isNodeClient(csr *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest) bool {
	return csr.Spec.SignerName == certificatesv1.KubeAPIServerClientKubeletSignerName && kubeletClient(req, csr.Spec.Usages) == nil
}

func isOwnNodeClient(csr *certificatesv1.CertificateSigningRequest, req *x509.CertificateRequest) bool {
	return isNodeClient(csr, req) && csr.Spec.Username == req.Subject.CommonName
}

func (a *Approver) handle(ctx context.Context, csr *certificatesv1.CertificateSigningRequest) (time.Duration, error) {
	if len(csr.Status.Certificate) > 0 || condition(csr, certificatesv1.CertificateApproved) != nil || condition(csr, certificatesv1.CertificateDenied) != nil {
		return 0, nil
	}
	req, err := parse(csr.Spec.Request)
	if err != nil {
		return 0, workqueue.Terminal(fmt.Errorf("unable to parse csr %q: %w", csr.Name, err))
	}
	if isOwnNodeServing(csr, req) {
		node := strings.TrimPrefix(req.Subject.CommonName, "system:node:")
		a.serving.wait(node, csr.Name) // before it is looked at, so that no change is missed
		if err := a.serving.decide(ctx, req); err != nil {
			a.logger.Info("the controller does not approve a serving certificate; look at the request, and approve or deny it", "request", csr.Name, "user", csr.Spec.Username, "error", err)
			return personPatience, nil
		}
		a.serving.settled(node, csr.Name)
		return 0, a.approve(ctx, csr, "Auto approving kubelet serving certificate: its names and addresses are the node's alone.")
	}
	var tried []string
	for _, r := range recognized {
		if !r.is(csr, req) {
			continue
		}
		tried = append(tried, r.subresource)
		allowed, err := a.allowed(ctx, csr, r.subresource)
		if err != nil {
			return 0, fmt.Errorf("ask whether %q may have request %q approved: %w", csr.Spec.Username, csr.Name, err)
		}
		if !allowed {
			continue
		}
		return 0, a.approve(ctx, csr, r.message)
	}
	if len(tried) > 0 { // a role that is missing now may come
		return 0, fmt.Errorf("recognized csr %q as %v but subject access review was not approved", csr.Name, tried)
	}
	return 0, nil
}

func (a *Approver) approve(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, message string) error {
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: certificatesv1.CertificateApproved, Status: corev1.ConditionTrue, Reason: "AutoApproved", Message: message,
	})
	if _, err := a.client.CertificatesV1().CertificateSigningRequests().UpdateApproval(ctx, csr.Name, csr, metav1.UpdateOptions{}); err != nil {
		return fmt.Errorf("approve request %q: %w", csr.Name, err)
	}
	return nil
}

// allowed asks whether the requestor may create a subresource of requests.
func (a *Approver) allowed(ctx context.Context, csr *certificatesv1.CertificateSigningRequest, subresource string) (bool, error) {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range csr.Spec.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	review, err := a.client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: csr.Spec.Username, UID: csr.Spec.UID, Groups: csr.Spec.Groups, Extra: extra,
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: certificatesv1.GroupName, Resource: "certificatesigningrequests", Verb: "create", Subresource: subresource, Version: "*",
			},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return false, err
	}
	return review.Status.Allowed, nil
}
