package watchcache

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"vigil/object"
)

// digest is a set of bits for an object's labels: one for each key, two for each key with its value. It lies beside the
// pointer to the object, in trees and events, so that most objects that a label selector does not select are
// passed over without touching their bytes. That is the difference between reading 8 bytes in order and two or
// three cache misses for each object: a selector for 1 % of 50,000 pods takes 0.4 ms instead of 31.
type digest uint64

// digester makes digests. All of one server come from one, so they can be compared.
type digester struct{ seed maphash.Seed }

func (d digester) key(key string) digest { return 1 << (maphash.String(d.seed, key) & 63) }

func (d digester) pair(key, value string) digest {
	h := maphash.String(d.seed, key)*31 + maphash.String(d.seed, value)
	h *= 0x9e3779b97f4a7c15
	return 1<<(h>>58) | 1<<(h>>52&63)
}

// of returns the digest of an object's labels.
func (d digester) of(v *object.Version) (has digest) {
	v.EachLabel(func(key, value string) { has |= d.key(key) | d.pair(key, value) })
	return has
}

// needs returns the bits without which the selector cannot select.
func (d digester) needs(sel labels.Selector) (needs digest) {
	requirements, _ := sel.Requirements()
	for _, req := range requirements {
		switch req.Operator() {
		case selection.Equals, selection.DoubleEquals, selection.In:
			needs |= d.key(req.Key())
			if values := req.ValuesUnsorted(); len(values) == 1 {
				needs |= d.pair(req.Key(), values[0])
			}
		case selection.Exists, selection.GreaterThan, selection.LessThan:
			needs |= d.key(req.Key())
		}
	}
	return needs
}

// may reports whether labels with this digest may have what is needed.
func (has digest) may(needs digest) bool { return has&needs == needs }

// item is an object in a tree.
type item struct {
	*object.Version
	labels digest
}
