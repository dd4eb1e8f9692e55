package watchcache

import (
	"slices"
	"strings"
)

// routes finds the caches of a key: those with the longest prefix of it.
type routes struct {
	byPrefix map[string][]*Cache
	base     int // length of the prefix that all keys have

	// The last answer: events of one resource tend to come together.
	lastPrefix string
	last       []*Cache
	nested     bool // some prefix starts with another, so the last answer proves nothing
}

func (r *routes) add(c *Cache) {
	if r.byPrefix == nil {
		r.byPrefix = map[string][]*Cache{}
	}
	for prefix := range r.byPrefix {
		if prefix != c.res.Prefix && (strings.HasPrefix(prefix, c.res.Prefix) || strings.HasPrefix(c.res.Prefix, prefix)) {
			r.nested = true
		}
	}
	r.byPrefix[c.res.Prefix] = append(r.byPrefix[c.res.Prefix], c)
	r.lastPrefix, r.last = "", nil
}

func (r *routes) remove(c *Cache) {
	var rest []*Cache
	for _, other := range r.byPrefix[c.res.Prefix] {
		if other != c {
			rest = append(rest, other)
		}
	}
	if r.byPrefix[c.res.Prefix] = rest; rest == nil {
		delete(r.byPrefix, c.res.Prefix)
	}
	r.lastPrefix, r.last = "", nil
}

// clone returns a copy for another goroutine.
func (r *routes) clone() routes {
	c := routes{byPrefix: map[string][]*Cache{}, base: r.base, nested: r.nested}
	for prefix, caches := range r.byPrefix {
		c.byPrefix[prefix] = slices.Clone(caches)
	}
	return c
}

// find returns the caches of key, nil when it is of no resource here.
func (r *routes) find(key string) []*Cache {
	if r.last != nil && !r.nested && strings.HasPrefix(key, r.lastPrefix) {
		return r.last
	}
	for end := len(key); ; {
		slash := strings.LastIndexByte(key[:end], '/')
		if slash < r.base {
			return nil
		}
		if caches := r.byPrefix[key[:slash+1]]; caches != nil {
			r.lastPrefix, r.last = key[:slash+1], caches
			return caches
		}
		end = slash
	}
}
