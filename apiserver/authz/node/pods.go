package node

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"

	"vigil/object"
	"vigil/watchcache"
)

// nodePods remembers what the pods of nodes refer to.
type nodePods struct {
	cache *watchcache.Cache
	mu    sync.Mutex
	nodes map[string]map[*object.Version]*refs
}

// of returns what the pods that are bound to a node refer to, at this moment.
func (p *nodePods) of(node string) ([]*refs, error) {
	page, err := p.cache.Snapshot().List(watchcache.Selection{Fields: fields.OneTermEqualSelector("spec.nodeName", node)}, "", 0)
	if err != nil {
		return nil, fmt.Errorf("list pods of node %s: %w", node, err)
	}
	p.mu.Lock()
	known := p.nodes[node]
	p.mu.Unlock()

	now := make(map[*object.Version]*refs, len(page.Items))
	list := make([]*refs, 0, len(page.Items))
	changed := len(known) != len(page.Items)
	for _, version := range page.Items {
		r, ok := known[version]
		if !ok {
			changed = true
			obj, err := version.Decode()
			if err != nil {
				return nil, fmt.Errorf("decode pod %s: %w", version.Key(), err)
			}
			r = refsOf(obj.(*corev1.Pod))
		}
		now[version] = r
		list = append(list, r)
	}
	if changed {
		p.mu.Lock()
		if p.nodes[node] = now; len(now) == 0 {
			delete(p.nodes, node)
		}
		p.mu.Unlock()
	}
	return list, nil
}
