package deployment

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/controllers/internal/controllertest"
	"vigil/controllers/replicaset"
	"vigil/internal/eventually"
)

type fixture struct{ *controllertest.Cluster }

func start(t *testing.T) fixture {
	c := controllertest.New(t)
	sets := replicaset.New(replicaset.Config{Client: c.Client, Informers: c.Informers, Recorder: c.Recorder, Logger: c.Logger})
	deployments := New(Config{Client: c.Client, Informers: c.Informers, Recorder: c.Recorder, Logger: c.Logger})
	c.Run(sets.Run, deployments.Run)
	return fixture{c}
}

// story is a deployment named web in a namespace of its own.
type story struct {
	fixture
	*testing.T
	namespace string
}

func (f fixture) story(t *testing.T, namespace string) story {
	t.Helper()
	t.Parallel()
	return story{f, t, f.Namespace(t, namespace)}
}

func (s story) create(size int32, change func(*appsv1.DeploymentSpec)) *appsv1.Deployment {
	s.Helper()
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: map[string]string{"note": "mine", corev1.LastAppliedConfigAnnotation: "{}"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &size, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "one"}}},
			},
		},
	}
	if change != nil {
		change(&d.Spec)
	}
	made, err := s.Client.AppsV1().Deployments(s.namespace).Create(s.Context(), d, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return made
}

func (s story) patch(format string, args ...any) {
	s.Helper()
	_, err := s.Client.AppsV1().Deployments(s.namespace).Patch(s.Context(), "web", types.StrategicMergePatchType, fmt.Appendf(nil, format, args...), metav1.PatchOptions{})
	if err != nil {
		s.Fatal(err)
	}
}

func (s story) image(name string) {
	s.Helper()
	s.patch(`{"spec":{"template":{"spec":{"containers":[{"name":"c","image":%q}]}}}}`, name)
}

func (s story) get() *appsv1.Deployment {
	s.Helper()
	d, err := s.Client.AppsV1().Deployments(s.namespace).Get(s.Context(), "web", metav1.GetOptions{})
	if err != nil {
		s.Fatal(err)
	}
	return d
}

// sets returns the replica sets by the image of their template.
func (s story) sets() map[string]*appsv1.ReplicaSet {
	s.Helper()
	list, err := s.Client.AppsV1().ReplicaSets(s.namespace).List(s.Context(), metav1.ListOptions{})
	if err != nil {
		s.Fatal(err)
	}
	sets := map[string]*appsv1.ReplicaSet{}
	for i := range list.Items {
		sets[list.Items[i].Spec.Template.Spec.Containers[0].Image] = &list.Items[i]
	}
	return sets
}

// eventually waits until the deployment is as it should be, and returns it.
func (s story) eventually(what string, holds func(*appsv1.Deployment) bool) *appsv1.Deployment {
	s.Helper()
	var d *appsv1.Deployment
	eventually.True(s, what, func() bool {
		d = s.get()
		return holds(d)
	})
	return d
}

// complete waits for the end of a rollout, as kubectl rollout status does, and for its condition.
func (s story) complete() *appsv1.Deployment {
	s.Helper()
	return s.eventually("rollout is complete", func(d *appsv1.Deployment) bool {
		n, st := *d.Spec.Replicas, d.Status
		progressing := find(st.Conditions, appsv1.DeploymentProgressing)
		return st.ObservedGeneration == d.Generation && st.UpdatedReplicas == n && st.Replicas == n && st.ReadyReplicas == n && st.AvailableReplicas == n &&
			progressing != nil && progressing.Reason == "NewReplicaSetAvailable"
	})
}

// sizes waits until the sets of two images have these sizes.
func (s story) sizes(old, fresh string, oldSize, freshSize int32) {
	s.Helper()
	eventually.True(s, fmt.Sprintf("%s has %d and %s %d", old, oldSize, fresh, freshSize), func() bool {
		sets := s.sets()
		return sets[old] != nil && sets[fresh] != nil && *sets[old].Spec.Replicas == oldSize && *sets[fresh].Spec.Replicas == freshSize
	})
}

func condition(d *appsv1.Deployment, kind appsv1.DeploymentConditionType) appsv1.DeploymentCondition {
	if c := find(d.Status.Conditions, kind); c != nil {
		return *c
	}
	return appsv1.DeploymentCondition{}
}

func TestController(t *testing.T) {
	f := start(t)
	for name, tell := range map[string]func(story){
		"rollout":      tellRollout,
		"pause":        tellPause,
		"proportional": tellProportional,
		"deadline":     tellDeadline,
		"history":      tellHistory,
		"collision":    tellCollision,
		"adoption":     tellAdoption,
		"failure":      tellFailure,
	} {
		t.Run(name, func(t *testing.T) { tell(f.story(t, name)) })
	}
}

// Create, update, undo: sets, revisions, annotations, conditions, events.
func tellRollout(s story) {
	s.create(3, nil)
	d := s.complete()
	one := s.sets()["one"]
	if d.Annotations[revisionAnnotation] != "1" || one.Annotations[revisionAnnotation] != "1" {
		s.Errorf("revisions: %v, %v", d.Annotations, one.Annotations)
	}
	if one.Annotations[desiredAnnotation] != "3" || one.Annotations[maxAnnotation] != "4" || one.Annotations["note"] != "mine" {
		s.Errorf("annotations of the set: %v", one.Annotations)
	}
	if _, copied := one.Annotations[corev1.LastAppliedConfigAnnotation]; copied {
		s.Error("the last applied configuration was copied to the set")
	}
	if hash := one.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash == "" || one.Name != "web-"+hash || one.Spec.Selector.MatchLabels[appsv1.DefaultDeploymentUniqueLabelKey] != hash ||
		one.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] != hash {
		s.Errorf("hash of set %s: %v, %v", one.Name, one.Labels, one.Spec.Selector)
	}
	s.HasEvent(s, s.namespace, "web", "ScalingReplicaSet", fmt.Sprintf("Scaled up replica set %s from 0 to 3", one.Name))
	if c := condition(d, appsv1.DeploymentAvailable); c.Status != corev1.ConditionTrue || c.Reason != "MinimumReplicasAvailable" || c.Message != "Deployment has minimum availability." {
		s.Errorf("Available: %+v", c)
	}
	if c := condition(d, appsv1.DeploymentProgressing); c.Message != fmt.Sprintf("ReplicaSet %q has successfully progressed.", one.Name) {
		s.Errorf("Progressing: %+v", c)
	}

	s.writtenWithStatus(d)

	s.image("two")
	d = s.complete()
	s.writtenWithStatus(d)
	two := s.sets()["two"]
	s.sizes("one", "two", 0, 3)
	if d.Annotations[revisionAnnotation] != "2" || two.Annotations[revisionAnnotation] != "2" || d.Status.UnavailableReplicas != 0 {
		s.Errorf("after the update: %v, %v, %+v", d.Annotations, two.Annotations, d.Status)
	}
	s.HasEvent(s, s.namespace, "web", "ScalingReplicaSet", fmt.Sprintf("Scaled up replica set %s from 0 to 1", two.Name))
	s.scaledToNothing(one.Name)

	s.image("one")
	d = s.complete()
	s.sizes("two", "one", 0, 3)
	one = s.sets()["one"]
	if d.Annotations[revisionAnnotation] != "3" || one.Annotations[revisionAnnotation] != "3" || one.Annotations[revisionHistoryAnnotation] != "1" {
		s.Errorf("after the undo: %v, %v", d.Annotations, one.Annotations)
	}
	if n := len(s.sets()); n != 2 {
		s.Errorf("there are %d sets, want 2", n)
	}

	s.patch(`{"spec":{"replicas":5,"minReadySeconds":1}}`)
	s.complete()
	if one = s.sets()["one"]; *one.Spec.Replicas != 5 || one.Spec.MinReadySeconds != 1 || one.Annotations[desiredAnnotation] != "5" || one.Annotations[maxAnnotation] != "7" {
		s.Errorf("after scaling: %d, %d, %v", *one.Spec.Replicas, one.Spec.MinReadySeconds, one.Annotations)
	}
}

// writtenWithStatus checks that the controller writes the status of a deployment and nothing else: the revision comes with it. What
// changed last stands last among the conditions.
func (s story) writtenWithStatus(d *appsv1.Deployment) {
	s.Helper()
	var kinds []appsv1.DeploymentConditionType
	for _, c := range d.Status.Conditions {
		kinds = append(kinds, c.Type)
	}
	if want := []appsv1.DeploymentConditionType{appsv1.DeploymentAvailable, appsv1.DeploymentProgressing}; !slices.Equal(kinds, want) {
		s.Errorf("conditions %v, want %v", kinds, want)
	}
	owners := map[string]string{} // of the revision, by subresource
	for _, entry := range d.ManagedFields {
		if strings.Contains(string(entry.FieldsV1.Raw), `"f:`+revisionAnnotation+`"`) {
			owners[entry.Subresource] = entry.Manager
		}
	}
	if _, ok := owners["status"]; !ok || len(owners) != 1 {
		s.Errorf("the revision is owned by %v, want status", owners)
	}
}

// scaledToNothing waits for the event of the last step down, which may be of one pod or, when new ones were quick, of several.
func (s story) scaledToNothing(set string) {
	s.Helper()
	eventually.True(s, "event: replica set "+set+" scaled down to 0", func() bool {
		events, err := s.Client.CoreV1().Events(s.namespace).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			s.Fatal(err)
		}
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == "ScalingReplicaSet" && strings.HasPrefix(e.Message, "Scaled down replica set "+set+" from ") && strings.HasSuffix(e.Message, " to 0")
		})
	})
}

// A paused deployment is scaled but not rolled out.
func tellPause(s story) {
	s.create(2, nil)
	s.complete()
	s.patch(`{"spec":{"paused":true}}`)
	s.eventually("it is paused", func(d *appsv1.Deployment) bool {
		c := condition(d, appsv1.DeploymentProgressing)
		return c.Status == corev1.ConditionUnknown && c.Reason == "DeploymentPaused" && c.Message == "Deployment is paused"
	})
	s.image("two")
	s.patch(`{"spec":{"replicas":4}}`)
	s.eventually("it is scaled", func(d *appsv1.Deployment) bool {
		return d.Status.ObservedGeneration == d.Generation && d.Status.AvailableReplicas == 4 && d.Status.UpdatedReplicas == 0
	})
	if sets := s.sets(); len(sets) != 1 || *sets["one"].Spec.Replicas != 4 {
		s.Errorf("a paused deployment was rolled out: %v", sets)
	}
	s.patch(`{"spec":{"paused":false}}`)
	s.complete()
	s.sizes("one", "two", 0, 4)
}

// The example of the upstream documentation: 10 replicas become 15 in the middle of a rollout, with room for 3 more.
func tellProportional(s story) {
	s.create(10, func(spec *appsv1.DeploymentSpec) { spec.Strategy = rolling(10, "3", "2").Spec.Strategy })
	s.complete()
	s.image("broken")
	s.sizes("one", "broken", 8, 5)
	d := s.eventually("the status says so", func(d *appsv1.Deployment) bool {
		return d.Status.Replicas == 13 && d.Status.UpdatedReplicas == 5 && d.Status.AvailableReplicas == 8
	})
	if c := condition(d, appsv1.DeploymentAvailable); c.Status != corev1.ConditionTrue || d.Status.UnavailableReplicas != 5 {
		s.Errorf("two of ten may be missing, but: %+v", d.Status)
	}
	s.patch(`{"spec":{"replicas":15}}`)
	s.sizes("one", "broken", 11, 7)
	s.patch(`{"spec":{"replicas":0}}`)
	s.sizes("one", "broken", 0, 0)
	s.complete()
}

func tellDeadline(s story) {
	s.create(1, func(spec *appsv1.DeploymentSpec) {
		spec.ProgressDeadlineSeconds = new(int32)
		*spec.ProgressDeadlineSeconds = 1
		spec.Template.Spec.Containers[0].Image = "broken"
	})
	d := s.eventually("the deadline passes", func(d *appsv1.Deployment) bool {
		return condition(d, appsv1.DeploymentProgressing).Reason == "ProgressDeadlineExceeded"
	})
	name := s.sets()["broken"].Name
	if c := condition(d, appsv1.DeploymentProgressing); c.Status != corev1.ConditionFalse || c.Message != fmt.Sprintf("ReplicaSet %q has timed out progressing.", name) {
		s.Errorf("Progressing: %+v", c)
	}
	if c := condition(d, appsv1.DeploymentAvailable); c.Status != corev1.ConditionFalse || c.Reason != "MinimumReplicasUnavailable" || c.Message != "Deployment does not have minimum availability." {
		s.Errorf("Available: %+v", c)
	}
	s.image("mended")
	s.complete()
	s.patch(`{"spec":{"progressDeadlineSeconds":2147483647}}`)
	s.eventually("without a deadline there is no condition Progressing", func(d *appsv1.Deployment) bool {
		return d.Status.ObservedGeneration == d.Generation && condition(d, appsv1.DeploymentProgressing).Type == ""
	})
}

func tellHistory(s story) {
	s.create(1, func(spec *appsv1.DeploymentSpec) {
		spec.RevisionHistoryLimit = new(int32)
		*spec.RevisionHistoryLimit = 1
	})
	for _, image := range []string{"two", "three", "four"} {
		s.complete()
		s.image(image)
	}
	s.complete()
	eventually.True(s, "only the last two sets are left", func() bool {
		sets := s.sets()
		return len(sets) == 2 && sets["three"] != nil && sets["four"] != nil
	})
}

// A set of somebody else has the name that the new set should have.
func tellCollision(s story) {
	d := s.create(1, func(spec *appsv1.DeploymentSpec) { spec.Paused = true })
	hash, err := templateHash(&d.Spec.Template, d.Status.CollisionCount)
	if err != nil {
		s.Fatal(err)
	}
	labels := map[string]string{"somebody": "else"}
	_, err = s.Client.AppsV1().ReplicaSets(s.namespace).Create(s.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web-" + hash},
		Spec: appsv1.ReplicaSetSpec{
			Replicas: new(int32), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "foreign"}}}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.patch(`{"spec":{"paused":false}}`)
	d = s.complete()
	if d.Status.CollisionCount == nil || *d.Status.CollisionCount != 1 {
		s.Errorf("collision count: %v", d.Status.CollisionCount)
	}
	if set := s.sets()["one"]; set == nil || set.Name == "web-"+hash {
		s.Errorf("the new set: %v", set)
	}
}

// A set without owner that has the deployment's template becomes its new set.
func tellAdoption(s story) {
	d := s.create(2, func(spec *appsv1.DeploymentSpec) { spec.Paused = true })
	_, err := s.Client.AppsV1().ReplicaSets(s.namespace).Create(s.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "orphan", Labels: d.Spec.Selector.MatchLabels},
		Spec:       appsv1.ReplicaSetSpec{Replicas: new(int32), Selector: d.Spec.Selector, Template: d.Spec.Template},
	}, metav1.CreateOptions{})
	if err != nil {
		s.Fatal(err)
	}
	s.patch(`{"spec":{"paused":false}}`)
	s.complete()
	sets := s.sets()
	if len(sets) != 1 || sets["one"].Name != "orphan" || !metav1.IsControlledBy(sets["one"], d) || sets["one"].Annotations[revisionAnnotation] != "1" {
		s.Fatalf("got %v", sets)
	}
	if _, err := s.Client.AppsV1().ReplicaSets(s.namespace).Patch(s.Context(), "orphan", types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"other"}}}`), metav1.PatchOptions{}); err != nil {
		s.Fatal(err)
	}
	eventually.True(s, "the set is let go when it no longer matches, and another one made", func() bool {
		list, err := s.Client.AppsV1().ReplicaSets(s.namespace).List(s.Context(), metav1.ListOptions{})
		if err != nil {
			s.Fatal(err)
		}
		owned := 0
		for i := range list.Items {
			if metav1.IsControlledBy(&list.Items[i], d) != (list.Items[i].Name != "orphan") {
				return false
			}
			owned++
		}
		return owned == 2
	})
}

// What a set cannot do shows on its deployment.
func tellFailure(s story) {
	refuse := func(r *http.Request) bool {
		return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/"+s.namespace+"/pods")
	}
	s.Refuse.Store(&refuse)
	s.create(1, nil)
	s.eventually("ReplicaFailure comes", func(d *appsv1.Deployment) bool {
		c := condition(d, appsv1.DeploymentReplicaFailure)
		return c.Status == corev1.ConditionTrue && c.Reason == "FailedCreate" && c.Message == "refused"
	})
	s.Refuse.Store(nil)
	if c := condition(s.complete(), appsv1.DeploymentReplicaFailure); c.Type != "" {
		s.Errorf("the condition stays: %+v", c)
	}
}

// Recreate makes no new pod before the last old one is gone.
func TestRecreate(t *testing.T) {
	f := start(t)
	s := story{f, t, f.Namespace(t, "recreate")}
	s.create(2, func(spec *appsv1.DeploymentSpec) {
		spec.Strategy = appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}
	})
	s.complete()
	f.Kubelet.Hold()
	s.image("two")
	s.eventually("the old pods are terminating", func(d *appsv1.Deployment) bool {
		return d.Status.Replicas == 0 && d.Status.TerminatingReplicas != nil && *d.Status.TerminatingReplicas == 2
	})
	if sets := s.sets(); sets["two"] != nil {
		t.Errorf("the new set was made too early: %v", sets["two"].Spec)
	}
	f.Kubelet.Release(s.namespace)
	s.complete()
	s.sizes("one", "two", 0, 2)
}
