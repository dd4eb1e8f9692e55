package write

import (
	"context"
	"sync"

	"vigil/apiserver/admission"
	"vigil/kinds"
)

// serving is what is served in a test. It makes resources when they are first asked for.
type serving struct {
	table *kinds.Table
	cache func(*kinds.Kind) Cache
	list  func(ctx context.Context, r *Request) (*List, error)
	chain *admission.Chain

	mu   sync.Mutex
	made map[*kinds.Kind]*Resource
}

// resource is a [Config]'s.
func (s *serving) resource(k *kinds.Kind) *Resource {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made == nil {
		s.made = map[*kinds.Kind]*Resource{}
	}
	if s.made[k] == nil {
		c := ResourceConfig{List: s.list}
		if !k.Unstored {
			c.Cache = s.cache(k)
		}
		if s.chain != nil {
			c.Admission = s.chain.Plan(k)
		}
		s.made[k] = NewResource(s.table, k, c)
	}
	return s.made[k]
}

// change replaces what is served.
func (s *serving) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.made = nil
}
