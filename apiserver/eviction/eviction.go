package eviction

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"

	"vigil/apiserver/authn"
	"vigil/apiserver/write"
	"vigil/internal/podcondition"
	"vigil/kinds"
	"vigil/watchcache"
)

// Config says what evictions work with. All but Now is needed.
type Config struct {
	Kinds  *kinds.Table
	Writer *write.Writer
	Cache  func(*kinds.Kind) *watchcache.Cache
	Prefix string // of storage keys, with a slash at the end
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// Evictor evicts pods. It is safe for use by many goroutines.
type Evictor struct {
	config        Config
	pods, budgets *kinds.Kind
	self          *authn.User // does what an eviction does beside the delete
}

// New returns an evictor for the pods and budgets of a table that has both.
func New(config Config) *Evictor {
	if config.Now == nil {
		config.Now = time.Now
	}
	return &Evictor{
		config:  config,
		pods:    config.Kinds.ByResource(corev1.SchemeGroupVersion.WithResource("pods")),
		budgets: config.Kinds.ByResource(policyv1.SchemeGroupVersion.WithResource("poddisruptionbudgets")),
		self:    &authn.User{Name: "system:apiserver", Groups: []string{"system:masters", "system:authenticated"}},
	}
}

// attempts bounds how often an eviction starts again because somebody else was faster: 14 times within some 4 s.
var attempts = wait.Backoff{Steps: 14, Duration: 5 * time.Millisecond, Factor: 1.5, Jitter: 0.1}

// eviction is one request.
type eviction struct {
	*Evictor
	request *write.Request
	pod     *corev1.Pod
	opts    *metav1.DeleteOptions // as the client gave them
}

// Post is a write.PostFunc.
func (e *Evictor) Post(ctx context.Context, r *write.Request, obj kinds.Object, body runtime.Object) (runtime.Object, error) {
	asked := body.(*policyv1.Eviction)
	if asked.Name != r.Name {
		return nil, apierrors.NewBadRequest("name in URL does not match name in Eviction object")
	}
	opts := &metav1.DeleteOptions{}
	if asked.DeleteOptions != nil {
		opts = asked.DeleteOptions.DeepCopy()
	}
	if len(opts.DryRun) == 0 && r.DryRun {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	v := &eviction{Evictor: e, request: r, pod: obj.(*corev1.Pod), opts: opts}
	if err := v.run(ctx); err != nil {
		return nil, err
	}
	return &metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess, Code: http.StatusCreated,
	}, nil
}

func (v *eviction) run(ctx context.Context) error {
	gone, err := v.deleteUnguarded(ctx)
	if gone || err != nil {
		return err
	}
	budget, err := v.budget(ctx)
	if err != nil {
		return err
	}
	if budget == nil {
		return v.delete(ctx, v.opts)
	}
	if !v.mayGoFree(budget) {
		if err := v.charge(ctx, budget); err != nil {
			return err
		}
		return v.delete(ctx, v.opts)
	}
	// The pod counts for nothing now. It must not have become ready by the time it is deleted.
	opts := v.opts
	if !pinned(opts) {
		opts = pin(opts, v.pod.ResourceVersion)
	}
	err = v.delete(ctx, opts)
	if apierrors.IsConflict(err) && !pinned(v.opts) {
		return tryLater(budget.Name)
	}
	return err
}

// deleteUnguarded deletes the pod, and reports true, when its deletion disrupts nothing: it does not run yet or no longer.
// A pod that may yet start is deleted only as it was seen.
func (v *eviction) deleteUnguarded(ctx context.Context) (bool, error) {
	backoff := attempts
	for {
		if guarded(v.pod) {
			return false, nil
		}
		opts := v.opts
		if !ended(v.pod) && !pinned(opts) {
			opts = pin(opts, v.pod.ResourceVersion)
		}
		err := v.delete(ctx, opts)
		if !apierrors.IsConflict(err) || pinned(v.opts) || backoff.Steps == 0 {
			return err == nil, err
		}
		if err := pause(ctx, &backoff); err != nil {
			return false, err
		}
		if v.pod, err = v.readPod(ctx); err != nil {
			return false, err
		}
	}
}

func guarded(pod *corev1.Pod) bool { return !ended(pod) && pod.Status.Phase != corev1.PodPending }

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || pod.DeletionTimestamp != nil
}

// mayGoFree says whether the pod may be evicted without charging its budget: it is not ready, so what the budget guards is
// no worse off without it, and the budget's policy lets it go.
func (v *eviction) mayGoFree(budget *policyv1.PodDisruptionBudget) bool {
	ready := slices.ContainsFunc(v.pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
	if ready {
		return false
	}
	if p := budget.Spec.UnhealthyPodEvictionPolicy; p != nil && *p == policyv1.AlwaysAllow {
		return true
	}
	return budget.Status.CurrentHealthy >= budget.Status.DesiredHealthy && budget.Status.DesiredHealthy > 0
}

// pinned says whether options name the resource version that is to be deleted.
func pinned(opts *metav1.DeleteOptions) bool {
	return opts.Preconditions != nil && opts.Preconditions.ResourceVersion != nil
}

func pin(opts *metav1.DeleteOptions, version string) *metav1.DeleteOptions {
	opts = opts.DeepCopy()
	if opts.Preconditions == nil {
		opts.Preconditions = &metav1.Preconditions{}
	}
	opts.Preconditions.ResourceVersion = &version
	return opts
}

// delete notes in the pod why it goes and deletes it.
func (v *eviction) delete(ctx context.Context, opts *metav1.DeleteOptions) error {
	another := opts.Preconditions != nil && opts.Preconditions.UID != nil && *opts.Preconditions.UID != v.pod.UID
	if len(opts.DryRun) == 0 && !another {
		version, err := v.mark(ctx, opts.Preconditions)
		switch {
		case apierrors.IsConflict(err):
			// The delete will find the same, and say it in its own words.
		case err != nil:
			return err
		case pinned(opts):
			opts = pin(opts, version)
		}
	}
	opts = opts.DeepCopy()
	opts.TypeMeta = metav1.TypeMeta{Kind: "DeleteOptions", APIVersion: "v1"}
	body, err := json.Marshal(opts)
	if err != nil {
		return fmt.Errorf("encode delete options: %w", err)
	}
	r := v.requestFor(v.pods, v.pod.Name, "", body)
	r.User, r.UserAgent = v.request.User, v.request.UserAgent
	_, err = v.config.Writer.Delete(ctx, r)
	return err
}

// mark gives the pod the condition DisruptionTarget and returns its resource version then.
func (v *eviction) mark(ctx context.Context, p *metav1.Preconditions) (version string, err error) {
	now := metav1.NewTime(v.config.Now())
	patch := podcondition.Patch{Have: v.pod.Status.Conditions, Set: corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: now,
		Reason: "EvictionByEvictionAPI", Message: "Eviction API: evicting", ObservedGeneration: v.pod.Generation,
	}}
	if p != nil && p.ResourceVersion != nil {
		patch.ResourceVersion = *p.ResourceVersion
	}
	body, err := patch.Encode()
	if err != nil {
		return "", fmt.Errorf("encode condition of pod %s: %w", v.pod.Name, err)
	}
	r := v.requestFor(v.pods, v.pod.Name, "status", body)
	r.ContentType = string(types.StrategicMergePatchType)
	result, err := v.config.Writer.Patch(ctx, r)
	if err != nil {
		return "", err
	}
	return fmt.Sprint(result.Version.Revision()), nil
}

func (v *eviction) requestFor(kind *kinds.Kind, name, subresource string, body []byte) *write.Request {
	return &write.Request{
		Kind: kind, Namespace: v.pod.Namespace, Name: name, Subresource: subresource,
		ContentType: "application/json", Body: body, User: v.self, UserAgent: "vigil-apiserver",
	}
}

// pause waits before the next attempt.
func pause(ctx context.Context, backoff *wait.Backoff) error {
	timer := time.NewTimer(backoff.Step())
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryLater is the answer when it cannot be said yet whether the budget allows the eviction.
func tryLater(budget string) error {
	return refused(10, fmt.Sprintf("The disruption budget %s is still being processed by the server.", budget))
}

// refused is the answer when a budget does not allow the eviction now; clients come back after so many seconds.
func refused(after int, cause string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", after)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: cause}}
	return err
}

// readPod returns the pod as it is now.
func (v *eviction) readPod(ctx context.Context) (*corev1.Pod, error) {
	obj, err := v.read(ctx, v.pods, v.pod.Name)
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Pod), nil
}

// read returns an object of the pod's namespace with everything that was written to it before.
func (v *eviction) read(ctx context.Context, kind *kinds.Kind, name string) (runtime.Object, error) {
	snapshot, err := v.snapshot(ctx, kind)
	if err != nil {
		return nil, err
	}
	version, found := snapshot.Get(v.config.Prefix + kind.Path + "/" + v.pod.Namespace + "/" + name)
	if !found {
		return nil, apierrors.NewNotFound(kind.GroupResource(), name)
	}
	obj, err := version.Decode()
	if err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", kind.Resource, name, err)
	}
	return obj, nil
}

func (v *eviction) snapshot(ctx context.Context, kind *kinds.Kind) (*watchcache.Snapshot, error) {
	snapshot, err := v.config.Cache(kind).Read(ctx, watchcache.Consistent())
	if errors.Is(err, watchcache.ErrAhead) || errors.Is(err, watchcache.ErrNotReady) {
		return nil, apierrors.NewServerTimeout(schema.GroupResource{Resource: "pods/eviction"}, "create", 1)
	}
	return snapshot, err
}
