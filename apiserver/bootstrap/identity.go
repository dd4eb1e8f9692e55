package bootstrap

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"

	"github.com/google/uuid"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/object"
)

const (
	identityLabel = "apiserver.kubernetes.io/identity"
	identityValue = "kube-apiserver"
	// identityLife is how long a server counts as living after it has renewed its Lease, and how often the Leases of dead ones are
	// looked for.
	identityLife = time.Hour
)

// identity is the Lease by which others know which API servers there are (KEP-1965): kube-system/apiserver-HASH. It is made anew when the
// server starts, renewed with everything else that is kept, and deleted when the server leaves.
type identity struct {
	name, host, holder string
	begun              bool
	collected          time.Time
}

// newIdentity derives the name from the host's, as upstream's does.
func newIdentity() (*identity, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("identity of the API server: %w", err)
	}
	name := identityName(host)
	return &identity{name: name, host: host, holder: name + "_" + uuid.NewString()}, nil
}

// identityName is "apiserver-" and a hash of host and component, both with their lengths before them.
func identityName(host string) string {
	var data []byte
	for _, part := range []string{host, identityValue} {
		data = binary.BigEndian.AppendUint16(data, uint16(len(part)))
		data = append(data, part...)
	}
	sum := sha256.Sum256(data)
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:16]))
}

// lease returns the Lease that the server should have, made from the one it has; have is nil if there is none.
func (i *identity) lease(have *coordinationv1.Lease) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: i.name, Namespace: metav1.NamespaceSystem}}
	if have != nil {
		lease = have.DeepCopy()
	}
	lease.TypeMeta = metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"}
	lease.Labels = maps.Clone(lease.Labels)
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	lease.Labels[identityLabel], lease.Labels[corev1.LabelHostname] = identityValue, i.host
	lease.Spec.HolderIdentity = &i.holder
	lease.Spec.LeaseDurationSeconds = new(int32(identityLife / time.Second))
	lease.Spec.RenewTime = new(metav1.NowMicro())
	return lease
}

// ensureIdentity makes or renews the server's Lease, and from time to time deletes those of servers that are dead.
func (b *Bootstrap) ensureIdentity(ctx context.Context) error {
	if b.identity == nil {
		return nil
	}
	if !b.identity.begun {
		// One that a dead server has left under this name must not be taken for a living one.
		if err := b.deleteLease(ctx, b.identity.name, ""); err != nil {
			return err
		}
		if err := b.makeLease(ctx); err != nil {
			return err
		}
		b.identity.begun = true
		return b.collectIdentities(ctx)
	}
	have, err := b.newest(leases, metav1.NamespaceSystem, b.identity.name)
	if err != nil {
		return err
	}
	if have == nil {
		return b.makeLease(ctx)
	}
	err = b.update(ctx, leases, metav1.NamespaceSystem, b.identity.name, "", b.identity.lease(have.(*coordinationv1.Lease)))
	if err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // those are for the next round
		return err
	}
	return b.collectIdentities(ctx)
}

func (b *Bootstrap) makeLease(ctx context.Context) error {
	request, err := b.request(leases, metav1.NamespaceSystem, "", b.identity.lease(nil))
	if err != nil {
		return err
	}
	if _, err := b.config.Writer.Create(ctx, request); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create lease %s: %w", b.identity.name, err)
	}
	return nil
}

// deleteLease deletes a Lease of kube-system, only in the version that is named.
func (b *Bootstrap) deleteLease(ctx context.Context, name, resourceVersion string) error {
	options := &metav1.DeleteOptions{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}}
	if resourceVersion != "" {
		options.Preconditions = &metav1.Preconditions{ResourceVersion: &resourceVersion}
	}
	request, err := b.request(leases, metav1.NamespaceSystem, name, options)
	if err != nil {
		return err
	}
	if _, err := b.config.Writer.Delete(ctx, request); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete lease %s: %w", name, err)
	}
	return nil
}

// collectIdentities deletes the Leases of API servers that have not renewed them.
func (b *Bootstrap) collectIdentities(ctx context.Context) error {
	if time.Since(b.identity.collected) < identityLife {
		return nil
	}
	versions, err := b.config.SystemLeases()
	if err != nil {
		return fmt.Errorf("list leases of API servers: %w", err)
	}
	var errs []error
	for _, v := range versions {
		errs = append(errs, b.collectIdentity(ctx, v))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	b.identity.collected = time.Now()
	return nil
}

func (b *Bootstrap) collectIdentity(ctx context.Context, v *object.Version) error {
	obj, err := v.Decode()
	if err != nil {
		return fmt.Errorf("decode lease: %w", err)
	}
	lease, ok := obj.(*coordinationv1.Lease)
	if !ok || lease.Labels[identityLabel] != identityValue || lease.Name == b.identity.name || !expired(lease, time.Now()) {
		return nil
	}
	b.config.Logger.Info("the API server deletes the lease of another one that has ended", "lease", lease.Name)
	return b.deleteLease(ctx, lease.Name, lease.ResourceVersion)
}

// expired says whether nobody holds a Lease any more.
func expired(lease *coordinationv1.Lease, now time.Time) bool {
	if lease.Spec.RenewTime == nil || lease.Spec.LeaseDurationSeconds == nil {
		return true
	}
	return lease.Spec.RenewTime.Add(time.Duration(*lease.Spec.LeaseDurationSeconds) * time.Second).Before(now)
}

// leaveIdentity deletes the server's Lease.
func (b *Bootstrap) leaveIdentity(ctx context.Context) error {
	if b.identity == nil || !b.identity.begun {
		return nil
	}
	return b.deleteLease(ctx, b.identity.name, "")
}
