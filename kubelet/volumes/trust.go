package volumes

import (
	"bytes"
	"context"
	"encoding/pem"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
)

// trustPeriod is how often the bundles of a volume are looked at. They change rarely, and nobody tells.
const trustPeriod = time.Minute

// trust gets ClusterTrustBundles.
type trust struct{ client kubernetes.Interface }

// anchors are the certificates of a bundle, or of all of a signer's that a selector chooses, as PEM, each once, in an order of no meaning.
func (t trust) anchors(ctx context.Context, source *corev1.ClusterTrustBundleProjection) ([]byte, error) {
	var bundles []string
	api := t.client.CertificatesV1().ClusterTrustBundles()
	switch {
	case source.Name != nil:
		bundle, err := api.Get(ctx, *source.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && isTrue(source.Optional) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		bundles = append(bundles, bundle.Spec.TrustBundle)
	case source.SignerName != nil:
		selector := labels.Nothing()
		if source.LabelSelector != nil {
			var err error
			if selector, err = metav1.LabelSelectorAsSelector(source.LabelSelector); err != nil {
				return nil, fmt.Errorf("while parsing label selector: %w", err)
			}
		}
		list, err := api.List(ctx, metav1.ListOptions{
			LabelSelector: selector.String(), FieldSelector: fields.OneTermEqualSelector("spec.signerName", *source.SignerName).String(),
		})
		if err != nil {
			return nil, err
		}
		for i := range list.Items {
			if selector.Matches(labels.Set(list.Items[i].Labels)) {
				bundles = append(bundles, list.Items[i].Spec.TrustBundle)
			}
		}
		if len(bundles) == 0 {
			if isTrue(source.Optional) {
				return nil, nil
			}
			return nil, fmt.Errorf("combination of signerName and labelSelector matched zero ClusterTrustBundles")
		}
	}
	return normalize(bundles)
}

// normalize sorts the certificates of bundles, so that the same ones make the same file, and leaves doubles out.
func normalize(bundles []string) ([]byte, error) {
	var certificates [][]byte
	for _, bundle := range bundles {
		for rest := []byte(bundle); ; {
			var block *pem.Block
			if block, rest = pem.Decode(rest); block == nil {
				break
			}
			certificates = append(certificates, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: block.Bytes}))
		}
	}
	slices.SortFunc(certificates, bytes.Compare)
	certificates = slices.CompactFunc(certificates, bytes.Equal)
	if len(certificates) == 0 {
		return nil, fmt.Errorf("no trust anchors found")
	}
	return bytes.Join(certificates, nil), nil
}
