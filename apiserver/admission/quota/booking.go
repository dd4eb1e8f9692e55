package quota

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/apiserver/admission"
	"vigil/kinds"
	"vigil/kinds/quota"
	"vigil/object"
	"vigil/store"
)

// bookTimeout bounds how long a batch of bookings may take. It goes on when the request that leads it is given up, since others wait
// for it, too.
const bookTimeout = 10 * time.Second

// booking is what one request wants to use.
type booking struct {
	attr  *admission.Attributes
	eval  quota.Evaluator
	delta corev1.ResourceList // what is more than before
	left  []string            // the quotas that it is still to be booked in

	finished bool // err is the outcome
	err      error
}

// newBooking measures what a request adds to what is used, and finds the quotas that it concerns. Nil: none.
func (p *Plugin) newBooking(a *admission.Attributes, list []kinds.Object) (*booking, error) {
	b := &booking{attr: a, eval: quota.For(a.Resource())}
	for _, obj := range list {
		q := obj.(*corev1.ResourceQuota)
		ok, err := b.concerns(q)
		if err != nil {
			return nil, err
		}
		if ok {
			b.left = append(b.left, q.Name)
		}
	}
	if len(b.left) == 0 {
		return nil, nil //nolint:nilnil // the usual case
	}
	now := time.Now()
	b.delta = b.eval.Usage(a.Object, now)
	if less := below(b.delta); len(less) > 0 {
		return nil, admission.Forbidden(a, fmt.Errorf("quota usage is negative for resource(s): %s", quota.TextOfNames(less)))
	}
	if a.Operation == admission.Update && a.Old != nil {
		b.delta = quota.Subtract(b.delta, b.eval.Usage(a.Old, now))
	}
	b.delta = quota.WithoutZeros(b.delta)
	if len(b.delta) == 0 {
		return nil, nil //nolint:nilnil // nothing to book
	}
	return b, nil
}

func below(list corev1.ResourceList) []corev1.ResourceName {
	return slices.DeleteFunc(quota.Names(list), func(name corev1.ResourceName) bool {
		quantity := list[name]
		return quantity.Sign() >= 0
	})
}

// concerns says whether a quota limits what the object uses, and refuses objects that do not say how much that is.
func (b *booking) concerns(q *corev1.ResourceQuota) (bool, error) {
	if !b.eval.Matches(q, q.Status.Hard, b.attr.Object) {
		return false, nil
	}
	names := b.eval.Matching(quota.Names(q.Status.Hard))
	for _, name := range names {
		if _, ok := q.Status.Used[name]; !ok {
			return false, admission.Forbidden(b.attr, fmt.Errorf("status unknown for quota: %s, resources: %s", q.Name, quota.TextOfNames(names)))
		}
	}
	if err := b.eval.Constraints(b.attr.Object, names); err != nil {
		return false, admission.Forbidden(b.attr, fmt.Errorf("failed quota: %s: %w", q.Name, err))
	}
	return true, nil
}

// add returns what a quota shows as used with the booking, or refuses that.
func (b *booking) add(q *corev1.ResourceQuota) (corev1.ResourceList, error) {
	requested := quota.Only(b.delta, quota.Names(q.Status.Hard))
	used := quota.Add(q.Status.Used, requested)
	if exceeded := quota.Exceeding(quota.Only(used, quota.Names(requested)), q.Status.Hard); len(exceeded) > 0 && b.grows(exceeded) {
		return nil, admission.Forbidden(b.attr, fmt.Errorf("exceeded quota: %s, requested: %s, used: %s, limited: %s", q.Name,
			quota.Text(quota.Only(requested, exceeded)), quota.Text(quota.Only(q.Status.Used, exceeded)), quota.Text(quota.Only(q.Status.Hard, exceeded))))
	}
	return used, nil
}

// grows says that the booking uses more of one of the names; who uses less may do so in a quota that is exceeded.
func (b *booking) grows(names []corev1.ResourceName) bool {
	return slices.ContainsFunc(names, func(name corev1.ResourceName) bool {
		quantity := b.delta[name]
		return quantity.Sign() > 0
	})
}

func (b *booking) finish(err error) { b.finished, b.err = true, err }

// state is a version of a quota.
type state struct {
	obj *corev1.ResourceQuota // shared; nil: there is none
	rev int64
}

// namespace books for one namespace, one batch after the other.
type namespace struct {
	name string

	turn   sync.Mutex       // held by who books the batch; may be held while taking mu
	newest map[string]state // guarded by turn: quotas as the last batch left them

	mu      sync.Mutex
	waiting []*booking
	pending []*entry // guarded by mu
}

// book waits for the turn of the namespace, then books all that wait with it.
func (n *namespace) book(ctx context.Context, p *Plugin, b *booking) error {
	n.mu.Lock()
	n.waiting = append(n.waiting, b)
	n.mu.Unlock()

	n.turn.Lock()
	defer n.turn.Unlock()
	if !b.finished { // nobody else has had it in a batch
		n.mu.Lock()
		batch := n.waiting
		n.waiting = nil
		n.mu.Unlock()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), bookTimeout)
		defer cancel()
		n.bookBatch(ctx, p, batch)
	}
	return b.err
}

// bookBatch books for all of a batch: first it finds out who fits into all quotas that concern them, then it books quota by quota.
func (n *namespace) bookBatch(ctx context.Context, p *Plugin, batch []*booking) {
	names := map[string]bool{}
	for _, b := range batch {
		for _, name := range b.left {
			names[name] = true
		}
	}
	quotas := map[string]*corev1.ResourceQuota{}
	for name := range names {
		now, err := n.current(ctx, p, name)
		if err != nil {
			for _, b := range batch {
				b.finish(err)
			}
			return
		}
		quotas[name] = now.obj
	}
	for _, b := range batch {
		b.try(quotas)
	}
	for _, name := range sorted(names) {
		var concerned []*booking
		for _, b := range batch {
			if !b.finished && !b.attr.DryRun && slices.Contains(b.left, name) {
				concerned = append(concerned, b)
			}
		}
		if len(concerned) == 0 {
			continue
		}
		if err := n.bookIn(ctx, p, name, concerned); err != nil {
			for _, b := range concerned {
				b.finish(err)
			}
		}
	}
	for _, b := range batch {
		if !b.finished {
			b.finish(nil)
		}
	}
}

// try adds the booking to all quotas that it concerns if it fits into all of them, and is refused by the first that it does not fit
// into. Quotas are replaced, not changed; nil is one that has gone.
func (b *booking) try(quotas map[string]*corev1.ResourceQuota) {
	with := map[string]*corev1.ResourceQuota{}
	for _, name := range b.left {
		q := quotas[name]
		if q == nil {
			continue
		}
		ok, err := b.concerns(q)
		if err == nil && !ok {
			continue
		}
		var used corev1.ResourceList
		if err == nil {
			used, err = b.add(q)
		}
		if err != nil {
			b.finish(err)
			return
		}
		next := *q
		next.Status.Used = used
		with[name] = &next
	}
	if !b.attr.DryRun {
		maps.Copy(quotas, with)
	}
}

func sorted(names map[string]bool) []string {
	list := make([]string, 0, len(names))
	for name := range names {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

// bookIn books in one quota, as often as somebody else writes it in between. An error leaves open what is booked.
func (n *namespace) bookIn(ctx context.Context, p *Plugin, name string, batch []*booking) error {
	now, err := n.current(ctx, p, name)
	if err != nil {
		return err
	}
	for {
		var accepted []*booking
		if now.obj == nil {
			return nil // it has gone, and limits nothing
		}
		next := now.obj.DeepCopy()
		refused := map[*booking]error{}
		for _, b := range batch {
			ok, err := b.concerns(next)
			if err == nil && !ok {
				continue // it has changed
			}
			var used corev1.ResourceList
			if err == nil {
				used, err = b.add(next)
			}
			if err != nil {
				refused[b] = err
				continue
			}
			next.Status.Used = used
			accepted = append(accepted, b)
		}
		entries := n.expect(name, accepted) // before anybody can see the booking
		var conflict *store.ConflictError
		after := now
		if !quota.Equal(next.Status.Used, now.obj.Status.Used) {
			after, err = n.write(ctx, p, next, now.rev)
		}
		switch {
		case err == nil:
			n.newest[name] = after
			for b, err := range refused {
				b.finish(err)
			}
			return nil
		case errors.As(err, &conflict):
			n.forget(entries)
			if now, err = n.decode(p, conflict.Current, conflict.Found); err != nil {
				return err
			}
		default:
			if !errors.Is(err, store.ErrUncertain) {
				n.forget(entries)
			}
			return fmt.Errorf("book in resource quota %s/%s: %w", n.name, name, err)
		}
	}
}

// current is the newest version of a quota that this server knows.
func (n *namespace) current(ctx context.Context, p *Plugin, name string) (state, error) {
	obj, err := admission.Find(ctx, p.config.Reader, resource, n.name, name)
	if err != nil {
		delete(n.newest, name)
		return state{}, nil //nolint:nilerr // it has just been listed, so it has just gone
	}
	cached := state{obj: obj.(*corev1.ResourceQuota)}
	if cached.rev, err = strconv.ParseInt(cached.obj.ResourceVersion, 10, 64); err != nil {
		return state{}, fmt.Errorf("resource quota %s/%s: %w", n.name, name, err)
	}
	if own := n.newest[name]; own.rev > cached.rev && own.obj.UID == cached.obj.UID {
		return own, nil
	}
	return cached, nil
}

func (n *namespace) write(ctx context.Context, p *Plugin, q *corev1.ResourceQuota, rev int64) (state, error) {
	stored, err := object.EncodeStored(p.config.Kind.Type, q)
	if err != nil {
		return state{}, err
	}
	if rev, err = p.config.Store.Update(ctx, p.key(n.name, q.Name), stored, rev, 0); err != nil {
		return state{}, err
	}
	q.ResourceVersion = strconv.FormatInt(rev, 10)
	return state{q, rev}, nil
}

func (n *namespace) decode(p *Plugin, kv store.KV, found bool) (state, error) {
	if !found {
		return state{}, nil
	}
	v, err := object.NewVersion(p.config.Kind.Type, kv.Key, kv.ModRev, kv.Value)
	if err != nil {
		return state{}, err
	}
	var obj runtime.Object
	if obj, err = v.Decode(); err != nil {
		return state{}, err
	}
	return state{obj.(*corev1.ResourceQuota), kv.ModRev}, nil
}

func (p *Plugin) key(namespace, name string) string {
	return p.config.Prefix + p.config.Kind.Path + "/" + namespace + "/" + name
}
