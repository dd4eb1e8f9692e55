package object

import "weak"

// Twin returns the same version for somebody who may keep it for long: it shares v's bytes and takes v's JSON, which is made then if it has
// not been, but only as long as v is in use elsewhere, and it does not keep alive what was made of v before it is asked for it.
func (v *Version) Twin() *Version {
	return &Version{
		typ: v.typ, key: v.key, rev: v.rev, wire: v.wire, origin: weak.Make(v),
		msg: v.msg, meta: v.meta, metaEnd: v.metaEnd, rv: v.rv, labels: v.labels,
	}
}
