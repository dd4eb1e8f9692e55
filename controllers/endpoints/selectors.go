package endpoints

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"vigil/informer"
)

// selectors has the selectors of all Services, so that an event of a pod finds the Services it concerns without decoding any.
//
// A pod that comes before its Service's selector is here is not missed: the Service is queued after its selector was put
// here, and its reconciliation reads the pods.
type selectors struct {
	mu          sync.RWMutex
	byNamespace map[string]map[string]labels.Selector // by namespace and name of the Service
}

func newSelectors() *selectors {
	return &selectors{byNamespace: map[string]map[string]labels.Selector{}}
}

// set notes the selector of a Service; an empty one selects nothing.
func (s *selectors) set(service types.NamespacedName, selector map[string]string) {
	if len(selector) == 0 {
		s.forget(service)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.byNamespace[service.Namespace]
	if of == nil {
		of = map[string]labels.Selector{}
		s.byNamespace[service.Namespace] = of
	}
	of[service.Name] = labels.Set(maps.Clone(selector)).AsSelectorPreValidated()
}

func (s *selectors) forget(service types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	of := s.byNamespace[service.Namespace]
	if delete(of, service.Name); len(of) == 0 {
		delete(s.byNamespace, service.Namespace)
	}
}

// matching calls add with each Service that selects a pod.
func (s *selectors) matching(pod *informer.Object, add func(types.NamespacedName)) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for name, selector := range s.byNamespace[pod.Namespace()] {
		if selector.Matches(pod.Labels()) {
			add(types.NamespacedName{Namespace: pod.Namespace(), Name: name})
		}
	}
}
