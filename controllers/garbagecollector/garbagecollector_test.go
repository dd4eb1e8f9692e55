package garbagecollector_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"vigil/controllers/garbagecollector"
	"vigil/controllers/internal/controllertest"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

const ns = "default"

// house is a running collector, with ConfigMaps as the objects: they have no controller of their own.
type house struct {
	*controllertest.Env
}

func start(t *testing.T) *house {
	env := controllertest.Start(t)
	c := garbagecollector.New(garbagecollector.Config{
		Server: env.Server, Discovery: env.Client.Discovery(), Metadata: env.Metadata, Informers: env.Informers,
		Recorder: env.Recorder, Logger: env.Logger,
	})
	env.Run(c.Run)
	return &house{env}
}

// make makes a ConfigMap with finalizers and owners. The references block their owners' deletion.
func (h *house) make(name string, finalizers []string, owners ...*corev1.ConfigMap) *corev1.ConfigMap {
	h.T.Helper()
	var refs []metav1.OwnerReference
	block := true
	for _, o := range owners {
		refs = append(refs, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: o.Name, UID: o.UID, BlockOwnerDeletion: &block})
	}
	return h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Finalizers: finalizers, OwnerReferences: refs}})
}

func (h *house) create(cm *corev1.ConfigMap) *corev1.ConfigMap {
	h.T.Helper()
	made, err := h.Client.CoreV1().ConfigMaps(ns).Create(h.T.Context(), cm, metav1.CreateOptions{})
	if err != nil {
		h.T.Fatal(err)
	}
	return made
}

func (h *house) delete(name string, policy metav1.DeletionPropagation) {
	h.T.Helper()
	if err := h.Client.CoreV1().ConfigMaps(ns).Delete(h.T.Context(), name, metav1.DeleteOptions{PropagationPolicy: &policy}); err != nil {
		h.T.Fatal(err)
	}
}

func (h *house) gone(names ...string) {
	h.T.Helper()
	h.Eventually(func(ctx context.Context) error {
		for _, name := range names {
			cm, err := h.Client.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return fmt.Errorf("%s is still there: %v, deleted %v, finalizers %v, owners %v", name, err, cm.DeletionTimestamp, cm.Finalizers, cm.OwnerReferences)
			}
		}
		return nil
	})
}

// until waits for an object to be in a state.
func (h *house) until(name, what string, holds func(*corev1.ConfigMap) bool) *corev1.ConfigMap {
	h.T.Helper()
	var cm *corev1.ConfigMap
	h.Eventually(func(ctx context.Context) error {
		var err error
		if cm, err = h.Client.CoreV1().ConfigMaps(ns).Get(ctx, name, metav1.GetOptions{}); err != nil {
			return fmt.Errorf("get %s: %v", name, err)
		}
		if !holds(cm) {
			return fmt.Errorf("%s is not %s: %+v", name, what, cm.ObjectMeta)
		}
		return nil
	})
	return cm
}

// barrier waits until the collector has dealt with an object that was made last.
func (h *house) barrier(name string) {
	h.T.Helper()
	h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{
		{APIVersion: "v1", Kind: "ConfigMap", Name: "never-there", UID: types.UID(name)},
	}}})
	h.gone(name)
}

func beingDeleted(cm *corev1.ConfigMap) bool { return cm.DeletionTimestamp != nil }

func TestCollect(t *testing.T) {
	h := start(t)
	hold := []string{"example.com/hold"}

	t.Run("background, three generations", func(t *testing.T) {
		h.T = t
		top := h.make("bg", nil)
		middle := h.make("bg-1", nil, top)
		h.make("bg-1-1", nil, middle)
		h.make("bg-1-2", nil, middle)
		begin := time.Now()
		h.delete("bg", metav1.DeletePropagationBackground)
		h.gone("bg", "bg-1", "bg-1-1", "bg-1-2")
		t.Logf("three generations in %v", time.Since(begin))
	})
	t.Run("foreground waits for blocking dependents", func(t *testing.T) {
		h.T = t
		top := h.make("fg", nil)
		middle := h.make("fg-1", nil, top)
		h.make("fg-1-1", hold, middle)
		h.delete("fg", metav1.DeletePropagationForeground)
		h.until("fg-1-1", "being deleted", beingDeleted)
		h.barrier("fg-barrier")
		h.until("fg-1", "waiting", func(cm *corev1.ConfigMap) bool { return beingDeleted(cm) && len(cm.Finalizers) == 1 })
		h.until("fg", "waiting", func(cm *corev1.ConfigMap) bool { return beingDeleted(cm) && len(cm.Finalizers) == 1 })
		h.release("fg-1-1")
		h.gone("fg-1-1", "fg-1", "fg")
	})
	t.Run("foreground does not wait for others", func(t *testing.T) {
		h.T = t
		top := h.make("nb", nil)
		h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "nb-1", Finalizers: hold, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "nb", UID: top.UID},
		}}})
		h.delete("nb", metav1.DeletePropagationForeground)
		h.gone("nb")
		h.until("nb-1", "being deleted", beingDeleted)
		h.release("nb-1")
		h.gone("nb-1")
	})
	t.Run("foreground in a circle ends", func(t *testing.T) {
		h.T = t
		a := h.make("circle-a", nil)
		b := h.make("circle-b", nil, a)
		block := true
		a.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "circle-b", UID: b.UID, BlockOwnerDeletion: &block}}
		if _, err := h.Client.CoreV1().ConfigMaps(ns).Update(t.Context(), a, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		h.delete("circle-a", metav1.DeletePropagationForeground)
		h.gone("circle-a", "circle-b")
	})
	t.Run("orphans stay and lose their owner", func(t *testing.T) {
		h.T = t
		top, other := h.make("or", nil), h.make("or-other", nil)
		h.make("or-1", nil, top)
		h.make("or-2", nil, top, other)
		h.delete("or", metav1.DeletePropagationOrphan)
		h.gone("or")
		h.barrier("or-barrier")
		h.until("or-1", "without owners", func(cm *corev1.ConfigMap) bool { return len(cm.OwnerReferences) == 0 && !beingDeleted(cm) })
		h.until("or-2", "with one owner", func(cm *corev1.ConfigMap) bool { return len(cm.OwnerReferences) == 1 && !beingDeleted(cm) })
	})
	t.Run("one owner is enough", func(t *testing.T) {
		h.T = t
		a, b := h.make("two-a", nil), h.make("two-b", nil)
		h.make("two", nil, a, b)
		h.delete("two-a", metav1.DeletePropagationBackground)
		left := h.until("two", "with one owner", func(cm *corev1.ConfigMap) bool { return len(cm.OwnerReferences) == 1 })
		if left.OwnerReferences[0].UID != b.UID {
			t.Errorf("the reference to %s is left, want that to two-b", left.OwnerReferences[0].Name)
		}
		h.delete("two-b", metav1.DeletePropagationBackground)
		h.gone("two")
	})
	t.Run("another object of the owner's name is no owner", func(t *testing.T) {
		h.T = t
		h.make("namesake", nil)
		h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "stranger", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "namesake", UID: "of-an-earlier-one"},
		}}})
		h.gone("stranger")
		h.until("namesake", "there", func(cm *corev1.ConfigMap) bool { return !beingDeleted(cm) })
	})
	t.Run("an owner of another kind than the reference says is no owner", func(t *testing.T) {
		h.T = t
		owner := h.make("wrong-kind", nil)
		h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "wrong-kind-1", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "Secret", Name: "wrong-kind", UID: owner.UID},
		}}})
		h.gone("wrong-kind-1")
	})
	t.Run("an owner of an unknown kind keeps its dependents", func(t *testing.T) {
		h.T = t
		h.create(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "of-widget", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "example.com/v1", Kind: "Widget", Name: "w", UID: "w-1"},
		}}})
		h.barrier("widget-barrier")
		h.until("of-widget", "there", func(cm *corev1.ConfigMap) bool { return !beingDeleted(cm) })
	})
	t.Run("a cluster-scoped object of a namespaced owner is left alone", func(t *testing.T) {
		h.T = t
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "odd", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "absent", UID: "absent-1"},
		}}}
		if _, err := h.Client.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		h.Eventually(func(ctx context.Context) error {
			return h.HasEvent(ctx, "odd", "OwnerRefInvalidNamespace", `ownerRef [v1/ConfigMap, namespace: , name: absent, uid: absent-1] does not exist in namespace ""`)
		})
		if got, err := h.Client.CoreV1().Nodes().Get(t.Context(), "odd", metav1.GetOptions{}); err != nil || got.DeletionTimestamp != nil {
			t.Errorf("the node is gone or going: %v, %v", got, err)
		}
	})
	t.Run("an owner in another namespace is no owner", func(t *testing.T) {
		h.T = t
		owner := h.make("far-owner", nil)
		far := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "far", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "v1", Kind: "ConfigMap", Name: "far-owner", UID: owner.UID},
		}}}
		if _, err := h.Client.CoreV1().ConfigMaps("kube-public").Create(t.Context(), far, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		h.Eventually(func(ctx context.Context) error {
			if _, err := h.Client.CoreV1().ConfigMaps("kube-public").Get(ctx, "far", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
				return fmt.Errorf("far is still there: %v", err)
			}
			return h.HasEvent(ctx, "far", "OwnerRefInvalidNamespace", `does not exist in namespace "kube-public"`)
		})
	})
}

// release takes an object's finalizers away.
func (h *house) release(name string) {
	h.T.Helper()
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	if _, err := h.Client.CoreV1().ConfigMaps(ns).Patch(h.T.Context(), name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		h.T.Fatal(err)
	}
}

// What happened while no collector ran is made up for when one starts.
func TestCollect_AfterStart(t *testing.T) {
	env := controllertest.Start(t)
	h := &house{env}
	top := h.make("top", nil)
	h.make("dependent", nil, top)
	h.make("waiting", nil)
	h.delete("top", metav1.DeletePropagationBackground)
	h.delete("waiting", metav1.DeletePropagationForeground)
	c := garbagecollector.New(garbagecollector.Config{
		Server: env.Server, Discovery: env.Client.Discovery(), Metadata: env.Metadata, Informers: env.Informers,
		Recorder: env.Recorder, Logger: env.Logger,
	})
	env.Run(c.Run)
	h.gone("dependent", "waiting")
}

// before calls f with each request of a client before it is sent.
type before struct {
	http.RoundTripper
	f func(*http.Request)
}

func (b before) RoundTrip(r *http.Request) (*http.Response, error) {
	b.f(r)
	return b.RoundTripper.RoundTrip(r)
}

// startWatched starts a collector, and f is called with what it sends about ConfigMaps.
func startWatched(t *testing.T, f func(h *house, method, name string)) *house {
	env := controllertest.Start(t)
	h := &house{env}
	config := rest.CopyConfig(env.Server)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return before{next, func(r *http.Request) {
			if name, ok := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/default/configmaps/"); ok {
				f(h, r.Method, name)
			}
		}}
	})
	client, err := metadata.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c := garbagecollector.New(garbagecollector.Config{
		Server: env.Server, Discovery: env.Client.Discovery(), Metadata: client, Informers: env.Informers,
		Recorder: env.Recorder, Logger: env.Logger,
	})
	env.Run(c.Run)
	return h
}

// A dependent that has not changed costs one request.
func TestCollect_DoesNotReadWhatItDeletes(t *testing.T) {
	var mu sync.Mutex
	sent := map[string]int{}
	h := startWatched(t, func(_ *house, method, name string) {
		if name != "top" {
			mu.Lock()
			defer mu.Unlock()
			sent[method]++
		}
	})
	top := h.make("top", nil)
	var names []string
	for i := range 10 {
		names = append(names, fmt.Sprint("dependent-", i))
		h.make(names[i], nil, top)
	}
	h.delete("top", metav1.DeletePropagationBackground)
	h.gone(names...)
	mu.Lock()
	defer mu.Unlock()
	if want := map[string]int{http.MethodDelete: len(names)}; !maps.Equal(sent, want) {
		t.Errorf("sent %v, want %v", sent, want)
	}
}

// What changes between the collector's look and its request is heeded.
func TestCollect_ChangedMeanwhile(t *testing.T) {
	var once sync.Map
	h := startWatched(t, func(h *house, method, name string) {
		patch := map[string]string{
			"labelled": `{"metadata":{"labels":{"a":"b"}}}`,
			"freed":    `{"metadata":{"ownerReferences":null}}`,
		}[name]
		if _, changed := once.LoadOrStore(name, true); method != http.MethodDelete || patch == "" || changed {
			return
		}
		if _, err := h.Client.CoreV1().ConfigMaps(ns).Patch(h.T.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
			h.T.Error(err)
		}
	})
	top := h.make("top", nil)
	h.make("labelled", nil, top)
	h.make("freed", nil, top)
	h.delete("top", metav1.DeletePropagationBackground)
	h.gone("labelled")
	h.until("freed", "without owners", func(cm *corev1.ConfigMap) bool { return len(cm.OwnerReferences) == 0 && !beingDeleted(cm) })
	h.barrier("changed-barrier")
	h.until("freed", "there", func(cm *corev1.ConfigMap) bool { return !beingDeleted(cm) })
}
