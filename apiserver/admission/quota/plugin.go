package quota

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/admission"
	"vigil/kinds"
	"vigil/kinds/quota"
	"vigil/store"
)

var resource = schema.GroupResource{Resource: "resourcequotas"}

// Config says what the plug-in works with.
type Config struct {
	Reader admission.Reader
	Store  Store
	Kind   *kinds.Kind // of resource quotas; nil: there are none
	Prefix string      // of all keys, with a slash at the end
}

// Store is what bookings need of *store.Store.
type Store interface {
	Get(ctx context.Context, key string) (store.KV, error)
	Update(ctx context.Context, key string, value []byte, ifRev int64, ttl time.Duration) (rev int64, err error)
}

// Plugin is ResourceQuota.
type Plugin struct {
	config Config

	mu         sync.Mutex
	namespaces map[string]*namespace // those that have had bookings
}

// New makes the plug-in.
func New(config Config) *Plugin {
	return &Plugin{config: config, namespaces: map[string]*namespace{}}
}

// Name implements admission.Plugin.
func (*Plugin) Name() string { return "ResourceQuota" }

// Handles implements admission.Plugin.
func (p *Plugin) Handles(k *kinds.Kind, subresource string, op admission.Operation) bool {
	if p.config.Kind == nil || !k.Namespaced || k.Unstored {
		return false
	}
	of := k.GroupResource()
	switch {
	case op == admission.Create:
		return subresource == ""
	case op != admission.Update:
		return false
	case of == resource:
		return subresource == "status"
	case of.Group == "" && of.Resource == "pods":
		return subresource == "resize" // nothing else changes what a pod uses
	}
	evaluator := quota.For(of)
	return subresource == "" && evaluator.ChangesWithUpdates()
}

// Admit implements admission.Mutator: a recalculation does not lose bookings.
func (p *Plugin) Admit(_ context.Context, a *admission.Attributes) error {
	now, ok := a.Object.(*corev1.ResourceQuota)
	before, was := a.Old.(*corev1.ResourceQuota)
	if ok && was && a.Subresource == "status" {
		p.namespace(a.Namespace).keepPending(now, before)
	}
	return nil
}

// Validate implements admission.Validator.
func (p *Plugin) Validate(ctx context.Context, a *admission.Attributes) error {
	if a.Subresource == "status" {
		return nil
	}
	list, err := p.config.Reader.List(ctx, resource, a.Namespace)
	if err != nil {
		return err
	}
	if len(list) == 0 {
		return nil
	}
	b, err := p.newBooking(a, list)
	if err != nil || b == nil {
		return err
	}
	return p.namespace(a.Namespace).book(ctx, p, b)
}

func (p *Plugin) namespace(name string) *namespace {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.namespaces[name]
	if n == nil {
		n = &namespace{name: name, newest: map[string]state{}}
		p.namespaces[name] = n
	}
	return n
}
