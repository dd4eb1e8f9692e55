package replicaset

import (
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"vigil/controllers/internal/podfacts"
	"vigil/informer"
)

func TestTally(t *testing.T) {
	labeled := func(p *corev1.Pod) { p.Labels["more"] = "x" }
	noTime := func(p *corev1.Pod) { p.Status.Conditions[0].LastTransitionTime = metav1.Time{} }
	stranger := func(p *corev1.Pod) { p.Labels["app"] = "other" }
	elsewhere := func(p *corev1.Pod) { p.Namespace = "elsewhere" }
	finished := func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }
	deleting := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: epoch} }
	pods := func(pods ...*corev1.Pod) []*corev1.Pod { return pods }
	for _, test := range []struct {
		name      string
		minReady  int32
		pods      []*corev1.Pod
		want      counts
		strangers bool
	}{
		{name: "nothing"},
		{name: "ready is available", pods: pods(testPod("a", labeled), testPod("b"), testPod("c", labeled, unready)), want: counts{active: 3, labeled: 2, ready: 2, available: 2}},
		{name: "ready without a time", pods: pods(testPod("a", noTime)), want: counts{active: 1, ready: 1, available: 1}},
		{name: "long enough", minReady: 60, pods: pods(testPod("a", readyFor(time.Minute))), want: counts{active: 1, ready: 1, available: 1}},
		{
			name: "soon", minReady: 60, want: counts{active: 3, ready: 3, next: 5 * time.Second},
			pods: pods(testPod("a", readyFor(50*time.Second)), testPod("b", readyFor(55*time.Second)), testPod("c", noTime)),
		},
		{name: "soon, of several labels", minReady: 60, pods: pods(testPod("a", readyFor(50*time.Second)), testPod("b", labeled, readyFor(55*time.Second))), want: counts{active: 2, labeled: 1, ready: 2, next: 5 * time.Second}},
		{name: "on their way out", pods: pods(testPod("a", deleting), testPod("b", finished), testPod("c", finished, deleting), testPod("d")), want: counts{active: 1, ready: 1, available: 1, terminating: 1}},
		{name: "of other labels", pods: pods(testPod("a", stranger), testPod("b")), want: counts{active: 1, ready: 1, available: 1}, strangers: true},
		{name: "of another namespace that claims to be the set's", pods: pods(testPod("a", elsewhere), testPod("b")), want: counts{active: 1, ready: 1, available: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			set := testSet(3)
			set.Spec.MinReadySeconds = test.minReady
			set.Spec.Template.Labels["more"] = "x"
			by, err := counted(set)
			if err != nil {
				t.Fatal(err)
			}
			tally := newTally()
			var objects []*informer.Object
			for _, pod := range test.pods {
				objects = append(objects, object(t, pod))
				tally.Change(nil, objects[len(objects)-1])
			}
			has, strangers := tally.of(by, epoch)
			if has != test.want || strangers != test.strangers {
				t.Errorf("counted %+v, strangers %v; want %+v, %v", has, strangers, test.want, test.strangers)
			}
			for _, o := range objects {
				tally.Change(o, nil)
			}
			if len(tally.sets) != 0 {
				t.Errorf("pods that are gone are remembered: %v", tally.sets)
			}
		})
	}
}

// Whatever happens to pods, the tally says what counting all of them would.
func TestTally_Random(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	set := testSet(3)
	set.Spec.MinReadySeconds = 60
	by, err := counted(set)
	if err != nil {
		t.Fatal(err)
	}
	tally, pods, objects := newTally(), map[string]*corev1.Pod{}, map[string]*informer.Object{}
	for step := range 2000 {
		name := strconv.Itoa(r.IntN(50))
		if pods[name] != nil && r.IntN(4) == 0 {
			tally.Change(objects[name], nil)
			delete(pods, name)
			delete(objects, name)
		} else {
			pod := testPod(name, readyFor(time.Duration(r.IntN(120))*time.Second))
			switch r.IntN(6) {
			case 0:
				unready(pod)
			case 1:
				pod.DeletionTimestamp = &metav1.Time{Time: epoch}
			case 2:
				pod.Status.Phase = corev1.PodSucceeded
			case 3:
				pod.OwnerReferences = nil
			case 4:
				pod.Labels["app"] = "other"
			}
			o := object(t, pod)
			tally.Change(objects[name], o)
			pods[name], objects[name] = pod, o
		}
		var want counts
		for _, pod := range pods {
			f := podfacts.OfPod(pod)
			if pod.OwnerReferences == nil || pod.Labels["app"] != "web" || f.Finished {
				continue
			}
			if f.Deleting {
				want.terminating++
				continue
			}
			want.add(by, f.State, labels.Set(pod.Labels), epoch, 1)
		}
		if has, _ := tally.of(by, epoch); has != want {
			t.Fatalf("step %d: counted %+v, want %+v", step, has, want)
		}
	}
}

func object(t testing.TB, pod *corev1.Pod) *informer.Object {
	t.Helper()
	message, err := pod.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	o, err := informer.FromProto(informer.ResourceOf[*corev1.Pod]().Type, message)
	if err != nil {
		t.Fatal(err)
	}
	return o
}
