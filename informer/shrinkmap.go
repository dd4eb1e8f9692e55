package informer

// shrinkMap is a map by key that gives memory back when most of what it had is gone. A map of Go's own keeps room for as many entries as
// it ever had.
type shrinkMap[V any] struct {
	m    map[string]V // nil only before the first put
	most int          // entries since m was made, as of the last removal
}

// shrinkAbove is the number of entries up to which a map is not worth copying.
const shrinkAbove = 64

func (s *shrinkMap[V]) put(key string, v V) {
	if s.m == nil {
		s.m = map[string]V{}
	}
	s.m[key] = v
}

// remove takes key out. It copies the map when less than a quarter of its entries are left: what that costs is less than what the removals have cost.
func (s *shrinkMap[V]) remove(key string) {
	s.most = max(s.most, len(s.m))
	delete(s.m, key)
	if s.most <= shrinkAbove || 4*len(s.m) >= s.most {
		return
	}
	m := make(map[string]V, len(s.m))
	for k, v := range s.m {
		m[k] = v
	}
	s.m, s.most = m, len(m)
}
