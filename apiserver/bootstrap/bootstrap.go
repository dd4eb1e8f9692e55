// Package bootstrap makes and keeps the objects that every cluster has:
//
//	namespaces        default, kube-system, kube-public, kube-node-lease
//	Service           default/kubernetes, by which pods find the API server, with its Endpoints and EndpointSlice
//	ServiceCIDR       kubernetes: the configured networks of cluster IPs
//	ConfigMap         kube-system/extension-apiserver-authentication, by which servers behind this one trust it
//	ConfigMap         kube-system/kube-apiserver-legacy-service-account-token-tracking, since when the use of tokens in Secrets is noted
//	PriorityClasses   system-cluster-critical, system-node-critical
//	APIServices       one for each group and version that is served here
//	Lease             kube-system/apiserver-HASH, which says that this server lives (KEP-1965)
//	roles, bindings   those of package bootstrappolicy
//
// It writes through the server's own Writer as system:apiserver, so what it makes is defaulted, validated and watched like
// everything else. Follows upstream's controlplane/controller/{systemnamespaces,kubernetesservice,defaultservicecidr},
// controlplane/reconcilers and registry/scheduling/rest.
package bootstrap

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/netip"
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
	Kinds  func() *kinds.Table // as served at the moment
	Writer *write.Writer
	// Newest returns the newest version of an object by its storage key.
	Newest func(k *kinds.Kind, key string) (*object.Version, bool)
	Store  Store  // where servers say that they live
	Prefix string // of storage keys, with a slash at the end

	ServiceRanges []netip.Prefix // of cluster IPs; the first address of the first one is the Service kubernetes'
	Address       netip.Addr     // under which pods reach this server; the zero value writes no Endpoints
	Port          int32
	// Authentication is what the ConfigMap extension-apiserver-authentication says. Nil: there is none.
	Authentication func() map[string]string
	// SystemLeases are the Leases of kube-system. Nil: this server has none that says that it lives, and deletes none of others.
	SystemLeases func() ([]*object.Version, error)
	Logger       *slog.Logger
}

// Bootstrap keeps the objects of one server.
type Bootstrap struct {
	config   Config
	self     *authn.User
	identity *identity // nil: the server has no Lease

	registered map[schema.GroupVersion]bool // that the last Ensure has made APIServices for
}

// New prepares; nothing is written before Ensure. It fails when the host has no name.
func New(config Config) (*Bootstrap, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Bootstrap{config: config, self: &authn.User{Name: "system:apiserver", Groups: []string{"system:masters", "system:authenticated"}}}
	var err error
	if config.SystemLeases != nil {
		b.identity, err = newIdentity()
	}
	return b, err
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
			b.config.Logger.Warn("the API server could not restore the objects that every cluster has; it tries again", "after", every, "error", err)
		}
	}
}

// Ensure makes what is missing and corrects what is wrong. It is for one goroutine at a time.
func (b *Bootstrap) Ensure(ctx context.Context) error {
	if err := b.ensureNamespaces(ctx); err != nil {
		return err
	}
	if err := b.ensurePriorityClasses(ctx); err != nil {
		return err
	}
	if err := b.ensureAuthentication(ctx); err != nil {
		return err
	}
	if err := b.ensureTokenTracking(ctx); err != nil {
		return err
	}
	if err := b.ensureAPIServices(ctx); err != nil {
		return err
	}
	if err := b.ensureServiceCIDR(ctx); err != nil {
		return err
	}
	if err := b.ensureIdentity(ctx); err != nil {
		return err
	}
	if err := b.create(ctx, services, metav1.NamespaceDefault, serviceName, b.service()); err != nil {
		return err
	}
	if !b.config.Address.IsValid() {
		return nil
	}
	return b.ensureEndpoints(ctx)
}

func (b *Bootstrap) ensureNamespaces(ctx context.Context) error {
	for _, name := range []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic, corev1.NamespaceNodeLease} {
		namespace := &corev1.Namespace{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
		if err := b.create(ctx, namespaces, "", name, namespace); err != nil {
			return err
		}
	}
	return nil
}

// serviceName is the name of the Service, its endpoints and the ServiceCIDR.
const serviceName = "kubernetes"

func (b *Bootstrap) service() *corev1.Service {
	single := corev1.IPFamilyPolicySingleStack
	return &corev1.Service{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{
			Name: serviceName, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{"component": "apiserver", "provider": "kubernetes"},
		},
		Spec: corev1.ServiceSpec{
			ClusterIP:       b.config.ServiceRanges[0].Masked().Addr().Next().String(),
			IPFamilyPolicy:  &single,
			SessionAffinity: corev1.ServiceAffinityNone,
			Type:            corev1.ServiceTypeClusterIP,
			Ports:           []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(b.config.Port)}},
		},
	}
}

// The resources that are written here.
var (
	namespaces      = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	services        = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	endpoints       = schema.GroupVersionResource{Version: "v1", Resource: "endpoints"}
	endpointSlices  = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
	serviceCIDRs    = schema.GroupVersionResource{Group: "networking.k8s.io", Version: "v1", Resource: "servicecidrs"}
	apiServices     = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}
	leases          = schema.GroupVersionResource{Group: "coordination.k8s.io", Version: "v1", Resource: "leases"}
	priorityClasses = schema.GroupVersionResource{Group: "scheduling.k8s.io", Version: "v1", Resource: "priorityclasses"}
)

// create makes an object unless it is there.
func (b *Bootstrap) create(ctx context.Context, resource schema.GroupVersionResource, namespace, name string, obj runtime.Object) error {
	if have, err := b.newest(resource, namespace, name); err != nil || have != nil {
		return err
	}
	request, err := b.request(resource, namespace, "", obj)
	if err != nil {
		return err
	}
	if _, err := b.config.Writer.Create(ctx, request); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create %s %s: %w", resource.Resource, name, err)
	}
	return nil
}

// update replaces an object, or its status when subresource says so.
func (b *Bootstrap) update(ctx context.Context, resource schema.GroupVersionResource, namespace, name, subresource string, obj runtime.Object) error {
	request, err := b.request(resource, namespace, name, obj)
	if err != nil {
		return err
	}
	request.Subresource = subresource
	if _, err := b.config.Writer.Update(ctx, request); err != nil {
		return fmt.Errorf("update %s %s: %w", resource.Resource, name, err)
	}
	return nil
}

func (b *Bootstrap) request(resource schema.GroupVersionResource, namespace, name string, obj runtime.Object) (*write.Request, error) {
	body, err := json.Marshal(obj)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", resource.Resource, err)
	}
	return &write.Request{
		Kind: b.config.Kinds().ByResource(resource), Namespace: namespace, Name: name,
		ContentType: "application/json", Body: body, User: b.self, UserAgent: "vigil-apiserver",
	}, nil
}

// newest returns an object from the watch cache, nil when it is not there.
func (b *Bootstrap) newest(resource schema.GroupVersionResource, namespace, name string) (runtime.Object, error) {
	kind := b.config.Kinds().ByResource(resource)
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
		return nil, fmt.Errorf("decode %s %s: %w", resource.Resource, name, err)
	}
	return obj, nil
}
