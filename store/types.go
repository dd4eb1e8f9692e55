package store

// KV is a value at a key. ModRev is the etcd revision of its last change: the object's resource version.
//
// Err is set when the value cannot be decrypted; Value is then what etcd holds. Stale says that the same value would be
// stored in another way now: encrypted, or with another key.
type KV struct {
	Key    string
	Value  []byte
	ModRev int64
	Stale  bool
	Err    error
}

// Event is one change of one key. Value is nil for a deletion. Err is that of a [KV].
type Event struct {
	Key    string
	Value  []byte
	ModRev int64
	Err    error
}

// Batch is what the feed delivers at once: changes in revision order, never a part of a transaction, and the
// revision up to which the feed is now complete. A batch without events is progress.
type Batch struct {
	Rev    int64
	Events []Event
}

// ListOptions select a range of a prefix.
type ListOptions struct {
	Rev   int64  // read at this revision; 0 is the newest, linearizable
	From  string // first key, inclusive; "" is the prefix itself
	Limit int64  // most values returned; 0 is all
}

// ListResult is one page, in key order. Rev is the revision it was read at (Rev of the options, or the newest).
type ListResult struct {
	KVs  []KV
	Rev  int64
	More bool
}
