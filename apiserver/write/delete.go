package write

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/admission"
	"vigil/kinds"
	"vigil/object"
)

// Delete removes an object, or marks it as being deleted when finalizers or a grace period hold it (200). It answers
// with the object if that is still there or the kind wants it so, else with a Status.
func (w *Writer) Delete(ctx context.Context, r *Request) (*Result, error) {
	o, err := w.begin(r, "delete")
	if err != nil {
		return nil, err
	}
	opts, err := deleteOptions(r)
	if err != nil {
		return nil, err
	}
	o.opts.dryRun = len(opts.DryRun) > 0
	o.warnOfDependents(opts)
	if ignoresReadErrors(opts) {
		return o.removeCorrupt(ctx)
	}
	a, v, err := o.remove(ctx, opts)
	if err != nil {
		return nil, err
	}
	code := http.StatusOK
	if orphan := orphanDependents(opts); a.do != remove && *orphan != nil && !**orphan {
		code = http.StatusAccepted
	}
	if a.do != remove || o.k.ReturnsDeleted {
		return o.result(code, v), nil
	}
	return o.resultObject(code, &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Details: &metav1.StatusDetails{
			Name:  r.Name,
			Group: o.k.GVK.Group,
			Kind:  o.k.Resource,
			UID:   a.obj.GetUID(),
		},
	}), nil
}

// remove deletes the object of the request as the options say.
func (o *op) remove(ctx context.Context, opts *metav1.DeleteOptions) (*attempt, *object.Version, error) {
	a, v, err := o.beginRemoval(ctx, opts)
	switch {
	case err != nil || !a.last:
		return a, v, err
	case o.opts.dryRun:
		a.do = remove
		return a, v, nil
	}
	return o.removeMarked(ctx, a, v)
}

// beginRemoval takes the first step of a deletion, which for most kinds is the only one. The attempt's field last says that
// the object has been marked and is to be removed now.
func (o *op) beginRemoval(ctx context.Context, opts *metav1.DeleteOptions) (*attempt, *object.Version, error) {
	var atLeast int64
	if p := opts.Preconditions; p != nil && p.ResourceVersion != nil {
		atLeast = seenRevision(*p.ResourceVersion)
	}
	return o.run(ctx, o.key(), atLeast, func(cur *object.Version) (attempt, error) {
		if cur == nil {
			return attempt{}, apierrors.NewNotFound(o.gr(), o.r.Name)
		}
		obj, err := o.decodeCurrent(cur)
		if err != nil {
			return attempt{}, err
		}
		if err := o.matchPreconditions(obj, opts.Preconditions); err != nil {
			return attempt{}, err
		}
		admitted, err := o.admit(ctx, admission.Delete, "", nil, obj)
		if err != nil {
			return attempt{}, err
		}
		if err := admitted.validate(ctx, o); err != nil {
			return attempt{}, err
		}
		a := attempt{obj: obj, admitted: admitted}
		if a.do, a.last = o.planRemoval(obj, opts); a.do == put {
			if a.stored, err = object.EncodeStored(o.k.Type, obj); err != nil {
				return attempt{}, err
			}
			if cur.EqualStored(a.stored) {
				a.do = keep
			}
			if o.k.TTL != nil {
				a.ttl = o.k.TTL(obj)
			}
		}
		return a, nil
	})
}

// removeMarked removes an object that beginRemoval has marked; v is its version. Watchers so see it being deleted before it is
// gone, and its last version says when and how it was deleted. Who else has removed it meanwhile has done what this delete wants.
func (o *op) removeMarked(ctx context.Context, a *attempt, v *object.Version) (*attempt, *object.Version, error) {
	removed, last, err := o.runFrom(ctx, o.key(), current{v: v, fresh: true}, func(cur *object.Version) (attempt, error) {
		if cur == nil || cur.UID() != v.UID() {
			return attempt{do: keep, obj: a.obj}, nil
		}
		return attempt{do: remove, obj: a.obj}, nil
	})
	if err != nil {
		return nil, nil, err
	}
	if removed.do == keep {
		removed.do, last = remove, v
	}
	return removed, last, nil
}

// matchPreconditions refuses an object that is not the one the client means.
func (o *op) matchPreconditions(obj kinds.Object, p *metav1.Preconditions) error {
	if p == nil {
		return nil
	}
	if o.k.Terminate != nil {
		return o.matchTerminating(obj, p)
	}
	// Upstream puts the kind where the resource belongs.
	gr := schema.GroupResource{Group: o.k.GVK.Group, Resource: o.k.GVK.Kind}
	if p.UID != nil && *p.UID != obj.GetUID() {
		return apierrors.NewConflict(gr, o.r.Name, fmt.Errorf("the UID in the precondition (%s) does not match the UID in record (%s). The object might have been deleted and then recreated", *p.UID, obj.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion() {
		return apierrors.NewConflict(gr, o.r.Name, fmt.Errorf("the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record (%s). The object might have been modified", *p.ResourceVersion, obj.GetResourceVersion()))
	}
	return nil
}

// matchTerminating is matchPreconditions for kinds that terminate: upstream deletes namespaces in its own way and words.
func (o *op) matchTerminating(obj kinds.Object, p *metav1.Preconditions) error {
	if p.UID != nil && *p.UID != obj.GetUID() {
		return apierrors.NewConflict(o.gr(), o.r.Name, fmt.Errorf("Precondition failed: UID in precondition: %v, UID in object meta: %v", *p.UID, obj.GetUID()))
	}
	if p.ResourceVersion != nil && *p.ResourceVersion != obj.GetResourceVersion() {
		return apierrors.NewConflict(o.gr(), o.r.Name, fmt.Errorf("Precondition failed: ResourceVersion in precondition: %v, ResourceVersion in object meta: %v", *p.ResourceVersion, obj.GetResourceVersion()))
	}
	return nil
}

// planRemoval decides what a delete does to an object, and marks it unless it goes at once. A deletion goes through these
// states, some of which an object skips:
//
//	alive ── kind terminates ───────> deletionTimestamp now, no deletionGracePeriodSeconds; a later delete goes on from here
//	      ── grace period granted ──> deletionTimestamp in the future, deletionGracePeriodSeconds > 0
//	      ── finalizers, or the kind is deleted gracefully ──> deletionTimestamp now, deletionGracePeriodSeconds 0
//	      ── no finalizers ─────────> gone
//
// A later delete can shorten the grace period, down to nothing. last says that the object goes when it has been marked.
func (o *op) planRemoval(obj kinds.Object, opts *metav1.DeleteOptions) (do action, last bool) {
	heldBySpec := o.k.SpecFinalizers != nil && len(o.k.SpecFinalizers(obj)) > 0
	if o.k.Terminate != nil {
		switch {
		case obj.GetDeletionTimestamp() == nil:
			now := o.timestamp()
			obj.SetDeletionTimestamp(&now)
			o.k.Terminate(obj)
			o.setOwnFinalizers(obj, opts)
			return put, false
		case heldBySpec:
			return keep, false
		}
	}
	grace, graceful, pending := o.grantGrace(obj, opts)
	if pending {
		return keep, false
	}
	o.setOwnFinalizers(obj, opts)
	held := heldBySpec || len(obj.GetFinalizers()) > 0
	switch {
	case graceful:
		return put, grace == 0 && !held
	case held:
		o.markDeleted(obj)
		return put, false
	default:
		return remove, false
	}
}

// grantGrace gives an object of a gracefully deleted kind its deletion time, or shortens the time it has. Pending means
// that the object is being deleted already and this delete changes nothing about that.
func (o *op) grantGrace(obj kinds.Object, opts *metav1.DeleteOptions) (seconds int64, graceful, pending bool) {
	if o.k.Graceful == nil {
		return 0, false, false
	}
	wanted := opts.GracePeriodSeconds
	if wanted != nil && *wanted < 0 {
		one := int64(1)
		wanted = &one
	}
	if deletion := obj.GetDeletionTimestamp(); deletion != nil {
		have := obj.GetDeletionGracePeriodSeconds()
		switch {
		case have == nil || *have == 0: // a deletion that was broken off on its last step
			return 0, false, false
		case wanted == nil || *wanted >= *have:
			return 0, false, true
		}
		seconds = o.shortenGrace(obj, deletion.Time, *have, *wanted)
		return seconds, true, false
	}
	adjusted := *opts
	adjusted.GracePeriodSeconds = wanted
	if seconds, graceful = o.k.Graceful(obj, &adjusted); !graceful {
		return 0, false, false
	}
	deletion := metav1.NewTime(o.timestamp().Add(time.Duration(seconds) * time.Second))
	obj.SetDeletionTimestamp(&deletion)
	obj.SetDeletionGracePeriodSeconds(&seconds)
	countGeneration(obj)
	return seconds, true, false
}

// shortenGrace moves the deletion time of an object from have seconds after its delete to wanted, but not into the past:
// if that is over already there remains one second, so that whoever ends the object gracefully still has its say.
func (o *op) shortenGrace(obj kinds.Object, deletion time.Time, have, wanted int64) int64 {
	earlier := metav1.NewTime(deletion.Add(time.Duration(wanted-have) * time.Second))
	if now := o.timestamp(); earlier.Before(&now) {
		earlier = now
		if wanted != 0 {
			wanted = 1
		}
	}
	obj.SetDeletionTimestamp(&earlier)
	obj.SetDeletionGracePeriodSeconds(&wanted)
	return wanted
}

// markDeleted marks an object that waits for its finalizers only.
func (o *op) markDeleted(obj kinds.Object) {
	now := o.timestamp()
	switch deletion := obj.GetDeletionTimestamp(); {
	case deletion == nil:
		countGeneration(obj)
		obj.SetDeletionTimestamp(&now)
	case deletion.After(now.Time):
		obj.SetDeletionTimestamp(&now)
	}
	var none int64
	obj.SetDeletionGracePeriodSeconds(&none)
}

// countGeneration makes the beginning of a deletion a new generation of the kinds that count them.
func countGeneration(obj kinds.Object) {
	if g := obj.GetGeneration(); g > 0 {
		obj.SetGeneration(g + 1)
	}
}

// warnOfDependents tells a client whose delete names no policy what becomes of the dependents, if the kind wants that said.
func (o *op) warnOfDependents(opts *metav1.DeleteOptions) {
	if text := o.k.Dependents.Warning; text != "" && opts.PropagationPolicy == nil && *orphanDependents(opts) == nil {
		o.warn.add(text)
	}
}

// setOwnFinalizers puts the finalizers in place by which the garbage collector orphans the dependents of an object or
// deletes them first. What the options leave open stays as the object has it, and what that leaves open is the kind's choice.
func (o *op) setOwnFinalizers(obj kinds.Object, opts *metav1.DeleteOptions) {
	have := obj.GetFinalizers()
	orphan := slices.Contains(have, metav1.FinalizerOrphanDependents)
	foreground := !orphan && slices.Contains(have, metav1.FinalizerDeleteDependents)
	switch asked := *orphanDependents(opts); {
	case o.k.Dependents.None:
		orphan, foreground = false, false
	case asked != nil:
		orphan, foreground = *asked, false
	case opts.PropagationPolicy != nil:
		orphan = *opts.PropagationPolicy == metav1.DeletePropagationOrphan
		foreground = *opts.PropagationPolicy == metav1.DeletePropagationForeground
	case !foreground && o.k.Dependents.Orphan:
		orphan = true
	}
	next := slices.DeleteFunc(slices.Clone(have), func(f string) bool {
		return f == metav1.FinalizerOrphanDependents || f == metav1.FinalizerDeleteDependents
	})
	if orphan {
		next = append(next, metav1.FinalizerOrphanDependents)
	}
	if foreground {
		next = append(next, metav1.FinalizerDeleteDependents)
	}
	if !slices.Equal(slices.Sorted(slices.Values(have)), slices.Sorted(slices.Values(next))) {
		obj.SetFinalizers(next)
	}
}
