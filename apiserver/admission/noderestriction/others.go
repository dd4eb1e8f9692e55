package noderestriction

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-helpers/storage/ephemeral"

	"github.com/google/go-cmp/cmp"

	"vigil/apiserver/admission"
	"vigil/apiserver/authz"
)

// claim lets kubelets report how a volume has grown.
func (c *check) claim() error {
	if c.Subresource != "status" {
		return c.refuse("may only update PVC status")
	}
	if c.Operation != admission.Update {
		return c.refuse("unexpected operation %q", c.Operation)
	}
	old, ok := c.Old.(*corev1.PersistentVolumeClaim)
	if !ok {
		return c.unexpected(c.Old)
	}
	claim, ok := c.Object.(*corev1.PersistentVolumeClaim)
	if !ok {
		return c.unexpected(c.Object)
	}
	old, claim = old.DeepCopy(), claim.DeepCopy()
	for _, each := range []*corev1.PersistentVolumeClaim{old, claim} {
		each.ResourceVersion = ""
		each.ManagedFields = nil
		each.Status.Capacity = nil
		each.Status.Conditions = nil
		each.Status.AllocatedResources = nil
		each.Status.AllocatedResourceStatuses = nil
		each.Status.ModifyVolumeStatus = nil
		each.Status.CurrentVolumeAttributesClassName = nil
	}
	if !equality.Semantic.DeepEqual(old, claim) {
		return c.refuse("node %q is not allowed to update fields other than status.quantity, status.conditions, status.allocatedResources and status.allocatedResourceStatuses: %v", c.name, cmp.Diff(old, claim))
	}
	return nil
}

// token lets kubelets have the tokens that the pods of their node ask for.
func (c *check) token() error {
	if c.Operation != admission.Create || c.Subresource != "token" {
		return nil
	}
	request, ok := c.Object.(*authenticationv1.TokenRequest)
	if !ok {
		return c.unexpected(c.Object)
	}
	ref := request.Spec.BoundObjectRef
	if ref == nil || ref.APIVersion != "v1" || ref.Kind != "Pod" || ref.Name == "" {
		return c.refuse("node requested token not bound to a pod")
	}
	if ref.UID == "" {
		return c.refuse("node requested token with a pod binding without a uid")
	}
	obj, err := admission.Find(c.ctx, c.plugin.Reader, pods, c.Namespace, ref.Name)
	if apierrors.IsNotFound(err) {
		return err
	}
	if err != nil {
		return admission.Forbidden(c.Attributes, err)
	}
	pod := obj.(*corev1.Pod)
	if ref.UID != pod.UID {
		return c.refuse("the UID in the bound object reference (%s) does not match the UID in record. The object might have been deleted and then recreated", ref.UID)
	}
	if pod.Spec.NodeName != c.name {
		return c.refuse("node requested token bound to a pod scheduled on a different node")
	}
	return c.audience(request, pod)
}

// audience lets a token be for those only that a volume of the pod, or the driver of one, asks for.
func (c *check) audience(request *authenticationv1.TokenRequest, pod *corev1.Pod) error {
	wanted := ""
	switch len(request.Spec.Audiences) {
	case 0:
	case 1:
		wanted = request.Spec.Audiences[0]
	default:
		return c.refuse("node may only request 0 or 1 audiences")
	}
	for i := range pod.Spec.Volumes {
		found, err := c.volumeAsks(pod, &pod.Spec.Volumes[i], wanted)
		if err != nil {
			return c.refuse("error validating audience %q: %w", wanted, err)
		}
		if found {
			return nil
		}
	}
	if c.plugin.Authorizer != nil {
		allowed, _, err := c.plugin.Authorizer.Authorize(c.ctx, &authz.Attributes{
			User: c.User, Verb: "request-serviceaccounts-token-audience", Version: "*", Resource: wanted, Namespace: c.Namespace, Name: c.Name,
		})
		if err == nil && allowed {
			return nil
		}
	}
	return c.refuse("audience %q not found in pod spec volume", wanted)
}

func (c *check) volumeAsks(pod *corev1.Pod, v *corev1.Volume, audience string) (bool, error) {
	driver := ""
	switch {
	case v.Projected != nil:
		for i := range v.Projected.Sources {
			if t := v.Projected.Sources[i].ServiceAccountToken; t != nil && t.Audience == audience {
				return true, nil
			}
		}
		return false, nil
	case v.CSI != nil:
		driver = v.CSI.Driver
	case v.PersistentVolumeClaim != nil:
		return c.claimAsks(pod.Namespace, v.PersistentVolumeClaim.ClaimName, audience)
	case v.Ephemeral != nil:
		return c.claimAsks(pod.Namespace, ephemeral.VolumeClaimName(pod, v), audience)
	}
	return c.driverAsks(driver, audience)
}

func (c *check) claimAsks(namespace, name, audience string) (bool, error) {
	obj, err := c.plugin.Reader.Get(c.ctx, claims, namespace, name)
	if err != nil {
		return false, ignoreMissing(err)
	}
	if obj, err = c.plugin.Reader.Get(c.ctx, volumes, "", obj.(*corev1.PersistentVolumeClaim).Spec.VolumeName); err != nil {
		return false, ignoreMissing(err)
	}
	csi := obj.(*corev1.PersistentVolume).Spec.CSI
	if csi == nil {
		return false, nil
	}
	return c.driverAsks(csi.Driver, audience)
}

func (c *check) driverAsks(driver, audience string) (bool, error) {
	if driver == "" {
		return false, nil
	}
	obj, err := c.plugin.Reader.Get(c.ctx, drivers, "", driver)
	if err != nil {
		return false, ignoreMissing(err)
	}
	for _, request := range obj.(*storagev1.CSIDriver).Spec.TokenRequests {
		if request.Audience == audience {
			return true, nil
		}
	}
	return false, nil
}

func ignoreMissing(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// signingRequest lets kubelets ask for certificates of their own name only.
func (c *check) signingRequest() error {
	if c.Operation != admission.Create || c.Subresource != "" {
		return nil
	}
	request, ok := c.Object.(*certificatesv1.CertificateSigningRequest)
	if !ok {
		return c.unexpected(c.Object)
	}
	switch request.Spec.SignerName {
	case certificatesv1.KubeletServingSignerName, certificatesv1.KubeAPIServerClientKubeletSignerName:
	default:
		return nil
	}
	block, _ := pem.Decode(request.Spec.Request)
	if block == nil {
		return c.refuse("unable to parse csr: %w", fmt.Errorf("no PEM block in it"))
	}
	parsed, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return c.refuse("unable to parse csr: %w", err)
	}
	if parsed.Subject.CommonName != "system:node:"+c.name {
		return c.refuse("can only create a node CSR with CN=system:node:%s", c.name)
	}
	return nil
}
