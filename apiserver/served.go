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

// newServed makes what is served of a table. stored has its stored rows. What old has of rows that it has, too, is shared with it; nil has none.
func (s *Server) newServed(table *kinds.Table, stored map[*kinds.Kind]*admission.Stored, old *served) *served {
	if old == nil {
		old = &served{table: kinds.NewTable()}
	}
	v := &served{
		table:    table,
		routes:   map[routeKey]*route{},
		byKind:   map[*kinds.Kind]*route{},
		stored:   map[schema.GroupResource]*route{},
		versions: map[schema.GroupVersion]bool{},
		docs:     discovery.Build(table.All(), old.docs),
		openapi:  openapi.New(table.All(), s.version.GitVersion, old.openapi),
	}
	other := difference(old.table, table)
	for _, k := range table.All() {
		if rt := old.byKind[k]; rt != nil && !other[k.Stored()] {
			v.add(rt)
		} else {
			v.add(s.newRoute(table, k, stored[k.Stored()]))
		}
	}
	v.index = sync.OnceValues(func() ([]byte, error) { return json.Marshal(map[string][]string{"paths": s.paths.list(v.docs)}) })
	return v
}

// difference returns the stored rows that have come or gone from one table to another, and those that share their storage with a view that has:
// what is derived from a row may depend on all rows of its storage.
func difference(a, b *kinds.Table) map[*kinds.Kind]bool {
	out := map[*kinds.Kind]bool{}
	for _, side := range [][2]*kinds.Table{{a, b}, {b, a}} {
		for _, k := range side[0].All() {
			if side[1].ByKind(k.GVK) != k {
				out[k.Stored()] = true
			}
		}
	}
	return out
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

// newRoute derives from a row what serves it. stored is its stored row as plug-ins read it, nil when there is none.
func (s *Server) newRoute(table *kinds.Table, k *kinds.Kind, stored *admission.Stored) *route {
	rt := &route{
		Resource: read.Resource{
			Kind:    k,
			Prefix:  s.prefix + k.Path + "/",
			Metrics: s.metrics.Resource(k.GVK.Group, k.GVK.Version, k.Resource, ""),

			Compressor: s.compressor,
			Budget:     s.lists,
		},
		verbs:  discovery.Verbs(k),
		plan:   s.admission.Plan(k),
		stored: stored,
	}
	config := write.ResourceConfig{Admission: rt.plan, List: rt.listForDelete}
	if stored != nil {
		rt.Cache = stored.Cache()
		config.Cache, config.Wrote = rt.Cache, stored.Wrote
	}
	rt.writes = write.NewResource(table, k, config)
	rt.addSubresources(s.metrics)
	return rt
}

// makeCaches makes the watch caches of those rows that are stored.
func (s *Server) makeCaches(rows []*kinds.Kind) map[*kinds.Kind]*admission.Stored {
	made := map[*kinds.Kind]*admission.Stored{}
	for _, k := range rows {
		if k.Unstored || k.View != nil {
			continue
		}
		made[k] = admission.NewStored(k, s.caches.Add(watchcache.Resource{
			Name:      k.GroupResource().String(),
			Prefix:    s.prefix + k.Path + "/",
			Type:      k.Type,
			Indexes:   k.Indexes,
			MinEvents: s.config.WatchCacheSizes[k.GroupResource().String()],
		}))
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

// stored finds a stored kind for admission plug-ins.
func (s *Server) stored(resource schema.GroupResource) *admission.Stored {
	if rt := s.served.Load().stored[resource]; rt != nil {
		return rt.stored
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
