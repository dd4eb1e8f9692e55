// Package bootstrap makes and keeps the objects that every cluster has: the namespaces default, kube-system, kube-public
// and kube-node-lease, and the Service kubernetes by which pods find the API server, with its Endpoints.
//
// It writes through the server's own Writer as system:apiserver, so what it makes is defaulted, validated and watched like
// everything else. Follows upstream's controlplane/controller/{systemnamespaces,kubernetesservice}.
package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"vigil/apiserver/authn"
	"vigil/apiserver/write"
	"vigil/kinds"
	"vigil/object"
)

// every is how often the objects are looked at, as upstream's.
const every = 10 * time.Second

// Config says what is written, and through what. All fields but Logger are needed.
type Config struct {
	Kinds  *kinds.Table
	Writer *write.Writer
	// Newest returns the newest version of an object by its storage key.
	Newest func(k *kinds.Kind, key string) (*object.Version, bool)
	Prefix string // of storage keys, with a slash at the end

	ServiceIP netip.Addr // of the Service kubernetes
	Address   netip.Addr // under which pods reach this server; the zero value writes no Endpoints
	Port      int32
	Logger    *slog.Logger
}

// Bootstrap keeps the objects of one server.
type Bootstrap struct {
	config Config
	self   *authn.User
}

// New prepares; nothing is written before Ensure.
func New(config Config) *Bootstrap {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	return &Bootstrap{config: config, self: &authn.User{Name: "system:apiserver", Groups: []string{"system:masters", "system:authenticated"}}}
}

// Run ensures again every ten seconds until ctx ends: somebody may delete what must be there.
func (b *Bootstrap) Run(ctx context.Context) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		if err := b.Ensure(ctx); err != nil && ctx.Err() == nil {
			b.config.Logger.Warn("cannot keep the cluster's own objects", "error", err)
		}
	}
}

// Ensure makes what is missing and corrects what is wrong.
func (b *Bootstrap) Ensure(ctx context.Context) error {
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := b.create(ctx, "namespaces", "", name, namespace); err != nil {
			return err
		}
	}
	if err := b.create(ctx, "services", metav1.NamespaceDefault, "kubernetes", b.service()); err != nil {
		return err
	}
	if !b.config.Address.IsValid() {
		return nil
	}
	return b.ensureEndpoints(ctx)
}

func (b *Bootstrap) service() *corev1.Service {
	single := corev1.IPFamilyPolicySingleStack
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "kubernetes", Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:       b.config.ServiceIP.String(),
			IPFamilyPolicy:  &single,
			SessionAffinity: corev1.ServiceAffinityNone,
			Type:            corev1.ServiceTypeClusterIP,
			Ports:           []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(b.config.Port)}},
		},
	}
}

// ensureEndpoints makes the Endpoints name this server. With several servers on one etcd the last to look wins; clients of the
// Service reach one that lives, as each looks every ten seconds.
func (b *Bootstrap) ensureEndpoints(ctx context.Context) error {
	want := []corev1.EndpointSubset{{
		Addresses: []corev1.EndpointAddress{{IP: b.config.Address.String()}},
		Ports:     []corev1.EndpointPort{{Name: "https", Port: b.config.Port, Protocol: corev1.ProtocolTCP}},
	}}
	endpoints := &corev1.Endpoints{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "kubernetes", Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"endpointslice.kubernetes.io/skip-mirror": "true"},
		},
		Subsets: want,
	}
	have, err := b.newest("endpoints", metav1.NamespaceDefault, "kubernetes")
	if err != nil {
		return err
	}
	if have == nil {
		return b.create(ctx, "endpoints", metav1.NamespaceDefault, "kubernetes", endpoints)
	}
	current, ok := have.(*corev1.Endpoints)
	if ok && slices.EqualFunc(current.Subsets, want, sameSubset) {
		return nil
	}
	request, err := b.request("endpoints", metav1.NamespaceDefault, "kubernetes", endpoints)
	if err != nil {
		return err
	}
	if _, err := b.config.Writer.Update(ctx, request); err != nil {
		return fmt.Errorf("update endpoints kubernetes: %w", err)
	}
	return nil
}

func sameSubset(a, b corev1.EndpointSubset) bool {
	return slices.EqualFunc(a.Addresses, b.Addresses, func(x, y corev1.EndpointAddress) bool { return x.IP == y.IP }) &&
		slices.EqualFunc(a.Ports, b.Ports, func(x, y corev1.EndpointPort) bool {
			return x.Name == y.Name && x.Port == y.Port && x.Protocol == y.Protocol
		})
}

// create makes an object unless it is there.
func (b *Bootstrap) create(ctx context.Context, resource, namespace, name string, obj runtime.Object) error {
	if have, err := b.newest(resource, namespace, name); err != nil || have != nil {
		return err
	}
	request, err := b.request(resource, namespace, "", obj)
	if err != nil {
		return err
	}
	if _, err := b.config.Writer.Create(ctx, request); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s %s: %w", resource, name, err)
	}
	return nil
}

func (b *Bootstrap) request(resource, namespace, name string, obj runtime.Object) (*write.Request, error) {
	body, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", resource, err)
	}
	return &write.Request{
		Kind: b.kind(resource), Namespace: namespace, Name: name,
		ContentType: "application/json", Body: body, User: b.self, UserAgent: "vigil-apiserver",
	}, nil
}

func (b *Bootstrap) kind(resource string) *kinds.Kind {
	return b.config.Kinds.ByResource(schema.GroupVersionResource{Version: "v1", Resource: resource})
}

// newest returns an object from the watch cache, nil when it is not there.
func (b *Bootstrap) newest(resource, namespace, name string) (runtime.Object, error) {
	kind := b.kind(resource)
	key := b.config.Prefix + kind.Path + "/"
	if namespace != "" {
		key += namespace + "/"
	}
	version, ok := b.config.Newest(kind, key+name)
	if !ok {
		return nil, nil
	}
	obj, err := version.Decode()
	if err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", resource, name, err)
	}
	return obj, nil
}
