package cri

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet"
)

// goneFor is how long an ID that was removed is remembered, so that a late event does not bring it back. containerd keeps events
// that nobody reads for five minutes.
const goneFor = 10 * time.Minute

// cache is what is known of the pods of the runtime. IDs in it are bare.
type cache struct {
	mu       sync.Mutex
	pods     map[types.UID]*podEntry
	owner    map[string]types.UID // of sandboxes and containers
	gone     map[string]time.Time // when sandboxes and containers were removed
	starting map[types.UID]int    // sandboxes being made: nothing but their maker knows in which state they are
	complete bool                 // pods that are not here do not exist
}

// podEntry is a pod that the runtime has, or may have.
type podEntry struct {
	reference  kubelet.PodReference
	sandboxes  map[string]*sandbox
	containers map[string]*container
	doubts     int   // how often it has become uncertain; see settle
	certain    bool  // nothing has to be asked
	made       *view // nil when something has changed since
}

// sandbox and container are immutable; a change replaces them.
type sandbox struct {
	kubelet.Sandbox
	bare    string
	attempt uint32
	live    bool // not yet stopped; a live sandbox without a network is not ready
	handler string
	options *kubelet.SandboxOptions // it was made with; nil when another process made it
}

type container struct {
	kubelet.Container
	bare    string
	sandbox string   // bare
	images  []string // IDs of its images as the image service has them: the root's, and those of volumes
}

// view is what Pod returns.
type view struct {
	sandbox    *kubelet.Sandbox
	containers []*kubelet.Container
}

func (c *cache) init() {
	c.pods, c.owner = map[types.UID]*podEntry{}, map[string]types.UID{}
	c.gone, c.starting = map[string]time.Time{}, map[types.UID]int{}
}

// view returns what a pod looks like; known is false when the runtime has to be asked.
func (c *cache) view(uid types.UID) (v view, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry := c.pods[uid]
	if entry == nil {
		return view{}, c.complete
	}
	if entry.made == nil {
		entry.made = entry.view()
	}
	return *entry.made, entry.certain
}

func (e *podEntry) view() *view {
	v := &view{}
	if newest := e.newest(); newest != nil {
		v.sandbox = &newest.Sandbox
	}
	for _, c := range e.containers {
		v.containers = append(v.containers, &c.Container)
	}
	slices.SortFunc(v.containers, func(a, b *kubelet.Container) int {
		return cmp.Or(b.Created.Compare(a.Created), cmp.Compare(b.Attempt, a.Attempt), cmp.Compare(a.Name, b.Name))
	})
	v.containers = slices.Clip(v.containers)
	return v
}

// newest is the sandbox that counts.
func (e *podEntry) newest() *sandbox {
	var newest *sandbox
	for _, s := range e.sandboxes {
		if newest == nil || s.newer(newest) {
			newest = s
		}
	}
	return newest
}

func (s *sandbox) newer(than *sandbox) bool {
	return cmp.Or(s.Created.Compare(than.Created), cmp.Compare(s.attempt, than.attempt), cmp.Compare(s.bare, than.bare)) > 0
}

// entry returns the entry of a pod, a new one if there is none; the caller holds the lock. A new entry is certain when the
// cache is complete.
func (c *cache) entry(uid types.UID) *podEntry {
	e := c.pods[uid]
	if e == nil {
		e = &podEntry{
			reference: kubelet.PodReference{UID: uid}, sandboxes: map[string]*sandbox{}, containers: map[string]*container{}, certain: c.complete,
		}
		c.pods[uid] = e
	}
	return e
}

func (e *podEntry) name(namespace, name string) {
	if name != "" {
		e.reference.Namespace, e.reference.Name = namespace, name
	}
}

// mergeSandbox takes in what was seen of a sandbox, and says whether that was news. A sandbox that has stopped stays so.
func (c *cache) mergeSandbox(uid types.UID, namespace, name string, seen *sandbox) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, gone := c.gone[seen.bare]; gone {
		return false
	}
	e := c.entry(uid)
	e.name(namespace, name)
	old := e.sandboxes[seen.bare]
	if old != nil {
		if !old.live && seen.live {
			return false
		}
		if old.shows(seen) && seen.options == nil {
			return false
		}
		merged := *seen
		merged.NetNS = cmp.Or(seen.NetNS, old.NetNS)
		merged.options = cmp.Or(seen.options, old.options)
		seen = &merged
	}
	e.sandboxes[seen.bare], c.owner[seen.bare], e.made = seen, uid, nil
	return true
}

// shows says whether seen, the same sandbox, has nothing that is not known.
func (s *sandbox) shows(seen *sandbox) bool {
	return s.live == seen.live && s.Ready == seen.Ready && slices.Equal(s.IPs, seen.IPs) && (seen.NetNS == "" || seen.NetNS == s.NetNS)
}

// mergeContainer takes in what was seen of a container, and says whether it has gone forward. asked says that it was asked for
// after the last action of our own, so that it counts although its state is the same.
func (c *cache) mergeContainer(uid types.UID, seen *container, asked bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, gone := c.gone[seen.bare]; gone {
		return false
	}
	e := c.entry(uid)
	old := e.containers[seen.bare]
	if old != nil && (seen.State < old.State || seen.State == old.State && !asked) {
		return false
	}
	e.containers[seen.bare], c.owner[seen.bare], e.made = seen, uid, nil
	return old == nil || old.State != seen.State
}

// remove forgets a sandbox or a container, and says whether it was known.
func (c *cache) remove(bare string) (uid types.UID, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removeLocked(bare)
}

func (c *cache) removeLocked(bare string) (uid types.UID, known bool) {
	c.gone[bare] = time.Now()
	uid, known = c.owner[bare]
	if !known {
		return "", false
	}
	delete(c.owner, bare)
	if e := c.pods[uid]; e != nil {
		delete(e.sandboxes, bare)
		delete(e.containers, bare)
		e.made = nil
		if len(e.sandboxes) == 0 && len(e.containers) == 0 && e.certain && c.complete {
			delete(c.pods, uid)
		}
	}
	return uid, true
}

// doubt says that a pod has to be asked for: an action of our own may or may not have had an effect.
func (c *cache) doubt(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entry(uid)
	e.certain = false
	e.doubts++
}

// doubtAll says so of all pods: events may have been lost.
func (c *cache) doubtAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.complete = false
	for _, e := range c.pods {
		e.certain = false
		e.doubts++
	}
}

// doubtsOf returns how often a pod has become uncertain, to be handed to settle after asking.
func (c *cache) doubtsOf(uid types.UID) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entry(uid).doubts
}

// settle says that all of a pod has been asked for since doubtsOf; it stays uncertain if there has been doubt since.
func (c *cache) settle(uid types.UID, doubts int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.pods[uid]; e != nil && e.doubts == doubts {
		e.certain = true
		if len(e.sandboxes) == 0 && len(e.containers) == 0 && c.complete {
			delete(c.pods, uid)
		}
	}
}

// known is what the cache has of the sandboxes and containers of one pod, or of all with uid "".
type known struct {
	sandboxes  map[string]*sandbox
	containers map[string]*container
	doubts     map[types.UID]int
}

func (c *cache) known(uid types.UID) known {
	k := known{sandboxes: map[string]*sandbox{}, containers: map[string]*container{}, doubts: map[types.UID]int{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	for at, e := range c.pods {
		if uid != "" && at != uid {
			continue
		}
		maps.Copy(k.sandboxes, e.sandboxes)
		maps.Copy(k.containers, e.containers)
		k.doubts[at] = e.doubts
	}
	return k
}

// settleAll says that everything has been asked for since known, and forgets what was removed long ago.
func (c *cache) settleAll(before known) {
	for uid, doubts := range before.doubts {
		c.settle(uid, doubts)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.complete = true
	for uid, e := range c.pods {
		if _, old := before.doubts[uid]; !old && e.doubts == 0 {
			e.certain = true // the relist has found it
		}
		if len(e.sandboxes) == 0 && len(e.containers) == 0 && e.certain {
			delete(c.pods, uid)
		}
	}
	for bare, since := range c.gone {
		if time.Since(since) > goneFor {
			delete(c.gone, bare)
		}
	}
}

// sandbox returns the newest sandbox of a pod; nil when none is known.
func (c *cache) sandbox(uid types.UID) *sandbox {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.pods[uid]; e != nil {
		return e.newest()
	}
	return nil
}

// replaced returns the sandboxes of a pod that have stopped, have no containers any more, and are not its newest.
func (c *cache) replaced(uid types.UID) (bare []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.pods[uid]
	if e == nil {
		return nil
	}
	used := map[string]bool{}
	for _, one := range e.containers {
		used[one.sandbox] = true
	}
	newest := e.newest()
	for id, s := range e.sandboxes {
		if s != newest && !s.live && !used[id] {
			bare = append(bare, id)
		}
	}
	return bare
}

// container finds a container by its bare ID.
func (c *cache) container(bare string) (*container, types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	uid := c.owner[bare]
	if e := c.pods[uid]; e != nil {
		return e.containers[bare], uid
	}
	return nil, uid
}

// hasSandbox says whether a sandbox is known.
func (c *cache) hasSandbox(bare string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.pods[c.owner[bare]]
	return e != nil && e.sandboxes[bare] != nil
}

// references lists the pods that have a sandbox.
func (c *cache) references() []kubelet.PodReference {
	c.mu.Lock()
	defer c.mu.Unlock()
	references := make([]kubelet.PodReference, 0, len(c.pods))
	for _, e := range c.pods {
		if len(e.sandboxes) > 0 {
			references = append(references, e.reference)
		}
	}
	return references
}

// reference names a pod; its name is empty when it is not known.
func (c *cache) reference(uid types.UID) kubelet.PodReference {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.pods[uid]; e != nil {
		return e.reference
	}
	return kubelet.PodReference{UID: uid}
}

// begin says that a sandbox is being made for a pod, and end that it has been, or could not be.
func (c *cache) begin(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.starting[uid]++
}

func (c *cache) end(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.starting[uid]--; c.starting[uid] == 0 {
		delete(c.starting, uid)
	}
}

func (c *cache) isStarting(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.starting[uid] > 0
}

// has says whether anything is known of a pod.
func (c *cache) has(uid types.UID) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pods[uid] != nil
}
