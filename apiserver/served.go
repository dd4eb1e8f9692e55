package apiserver

import (
	"encoding/json"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/admission"
	"vigil/apiserver/discovery"
	"vigil/apiserver/openapi"
	"vigil/apiserver/read"
	"vigil/apiserver/write"
	"vigil/kinds"
	"vigil/watchcache"
)

// served is what the server serves: the rows, what is derived from them, and the documents about them. A served never changes: the server
// has one behind Server.served and replaces it as a whole. A request takes it once, when it starts, and uses it to its end.
type served struct {
	table    *kinds.Table
	routes   map[routeKey]*route
	byKind   map[*kinds.Kind]*route
	stored   map[schema.GroupResource]*route // of the rows that are stored, views left out
	versions map[schema.GroupVersion]bool

	docs    *discovery.Documents
	openapi *openapi.Service
	index   func() ([]byte, error) // the document at /; the first call makes it
}

// newServed makes what is served of a table. caches has those of its stored rows.
func (s *Server) newServed(table *kinds.Table, caches map[*kinds.Kind]*watchcache.Cache) (*served, error) {
	v := &served{
		table:    table,
		routes:   map[routeKey]*route{},
		byKind:   map[*kinds.Kind]*route{},
		stored:   map[schema.GroupResource]*route{},
		versions: map[schema.GroupVersion]bool{},
		openapi:  openapi.New(table.All(), s.version.GitVersion),
	}
	for _, k := range table.All() {
		if k.View == nil {
			v.add(s.newRoute(table, k, caches[k], nil))
		}
	}
	for _, k := range table.All() {
		if k.View != nil {
			stored := v.byKind[k.Stored()]
			v.add(s.newRoute(table, k, stored.Cache, stored.admitted))
		}
	}
	var err error
	if v.docs, err = discovery.Build(table.All()); err != nil {
		return nil, err
	}
	v.index = sync.OnceValues(func() ([]byte, error) { return json.Marshal(map[string][]string{"paths": s.paths.list(v.docs)}) })
	return v, nil
}

func (v *served) add(rt *route) {
	k := rt.Kind
	v.routes[routeKey{k.GVK.Group, k.GVK.Version, k.Resource}] = rt
	v.byKind[k] = rt
	v.versions[k.GVK.GroupVersion()] = true
	if k.View == nil && !k.Unstored {
		v.stored[k.GroupResource()] = rt
	}
}

// newRoute derives from a row what serves it. A view has the cache of the stored row and is admitted as that.
func (s *Server) newRoute(table *kinds.Table, k *kinds.Kind, cache *watchcache.Cache, admitted *admission.Stored) *route {
	rt := &route{
		Resource: read.Resource{
			Kind:    k,
			Cache:   cache,
			Prefix:  s.prefix + k.Path + "/",
			Metrics: s.metrics.Resource(k.GVK.Group, k.GVK.Version, k.Resource, ""),

			Compressor: s.compressor,
			Budget:     s.lists,
		},
		verbs:    discovery.Verbs(k),
		plan:     s.admission.Plan(k),
		admitted: admitted,
	}
	config := write.ResourceConfig{Admission: rt.plan, List: rt.listForDelete}
	if !k.Unstored {
		if rt.admitted == nil {
			rt.admitted = admission.NewStored(k, cache)
		}
		config.Cache, config.Wrote = cache, rt.admitted.Wrote
	}
	rt.writes = write.NewResource(table, k, config)
	rt.addSubresources(s.metrics)
	return rt
}

// makeCaches makes the watch caches of the rows that are stored.
func (s *Server) makeCaches(rows []*kinds.Kind) map[*kinds.Kind]*watchcache.Cache {
	made := map[*kinds.Kind]*watchcache.Cache{}
	for _, k := range rows {
		if k.Unstored || k.View != nil {
			continue
		}
		made[k] = s.caches.Add(watchcache.Resource{
			Name:      k.GroupResource().String(),
			Prefix:    s.prefix + k.Path + "/",
			Type:      k.Type,
			Indexes:   k.Indexes,
			MinEvents: s.config.WatchCacheSizes[k.GroupResource().String()],
		})
	}
	return made
}

// Kinds returns the table of what is served at the moment.
func (s *Server) Kinds() *kinds.Table { return s.served.Load().table }

// Cache returns the watch cache of a row that is served at the moment; nil when it is not, or not stored.
func (s *Server) Cache(k *kinds.Kind) *watchcache.Cache {
	if rt := s.served.Load().byKind[k]; rt != nil {
		return rt.Cache
	}
	return nil
}

// admits finds a stored kind for admission plug-ins.
func (s *Server) admits(resource schema.GroupResource) *admission.Stored {
	if rt := s.served.Load().stored[resource]; rt != nil {
		return rt.admitted
	}
	return nil
}

// written finds what is served of a row, for writes that are not a request's.
func (s *Server) written(k *kinds.Kind) *write.Resource {
	if rt := s.served.Load().byKind[k]; rt != nil {
		return rt.writes
	}
	return nil
}
