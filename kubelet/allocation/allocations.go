package allocation

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/internal/podcontainers"
)

// Allocations remember how much of the node its pods were given, which is less or more than they ask for while a resize is not
// decided (KEP-1287). They are kept in a file, so that a kubelet that is started again gives no room away twice:
//
//	{"<uid>": {"containers": {"<name>": {requests, limits}}, "actuated": {"<name>": {requests, limits}}, "pod": {requests, limits}}}
type Allocations struct {
	file   string // "": they are not kept
	logger *slog.Logger

	mu   sync.Mutex
	pods map[types.UID]allocation
}

// allocation is what one pod was given. Its maps and what is in them are never changed.
type allocation struct {
	Containers map[string]corev1.ResourceRequirements `json:"containers"`         // by name
	Actuated   map[string]corev1.ResourceRequirements `json:"actuated,omitempty"` // with which containers run
	Pod        *corev1.ResourceRequirements           `json:"pod,omitempty"`      // of all containers together
}

// Open reads what was kept below a kubelet's root directory; "" for none.
func Open(rootDir string, logger *slog.Logger) *Allocations {
	a := &Allocations{logger: logger, pods: map[types.UID]allocation{}}
	if rootDir == "" {
		return a
	}
	a.file = filepath.Join(rootDir, "allocated_pods_state")
	data, err := os.ReadFile(a.file)
	if err == nil {
		err = json.Unmarshal(data, &a.pods)
	}
	if err != nil && !os.IsNotExist(err) {
		logger.Warn("the kubelet cannot read which resources pods were given; it takes what their specs ask for", "file", a.file, "error", err)
		a.pods = map[types.UID]allocation{}
	}
	return a
}

// Knows says whether a pod was admitted.
func (a *Allocations) Knows(uid types.UID) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.pods[uid]
	return ok
}

// Admit gives a pod what it asks for, unless it was given something before.
func (a *Allocations) Admit(pod *corev1.Pod) {
	if a.Knows(pod.UID) {
		return
	}
	a.Give(pod)
}

// Give gives a pod what it asks for.
func (a *Allocations) Give(pod *corev1.Pod) {
	a.mu.Lock()
	defer a.mu.Unlock()
	given := allocation{Containers: map[string]corev1.ResourceRequirements{}, Actuated: a.pods[pod.UID].Actuated, Pod: pod.Spec.Resources}
	for c := range podcontainers.All(pod) {
		if len(c.Resources.Requests)+len(c.Resources.Limits) > 0 {
			given.Containers[c.Name] = WithoutClaims(c.Resources)
		}
	}
	a.pods[pod.UID] = given
	a.keepLocked()
}

// Actuate notes with what a container runs.
func (a *Allocations) Actuate(uid types.UID, c *corev1.Container) {
	a.mu.Lock()
	defer a.mu.Unlock()
	given, ok := a.pods[uid]
	had, has := given.Actuated[c.Name]
	want := WithoutClaims(c.Resources)
	if !ok || has && apiequality.Semantic.DeepEqual(had, want) || !has && len(want.Requests)+len(want.Limits) == 0 {
		return
	}
	given.Actuated = maps.Clone(given.Actuated)
	if given.Actuated == nil {
		given.Actuated = map[string]corev1.ResourceRequirements{}
	}
	given.Actuated[c.Name] = want
	a.pods[uid] = given
	a.keepLocked()
}

// Actuated says with what the containers of a pod run. Containers of which nothing is known are not in it.
func (a *Allocations) Actuated(uid types.UID) map[string]corev1.ResourceRequirements {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pods[uid].Actuated
}

// Forget takes back what a pod was given.
func (a *Allocations) Forget(uid types.UID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, ok := a.pods[uid]; ok {
		delete(a.pods, uid)
		a.keepLocked()
	}
}

// Allocated returns the pod with what it was given in place of what it asks for; the same pod when that is no different.
func (a *Allocations) Allocated(pod *corev1.Pod) *corev1.Pod {
	a.mu.Lock()
	given, ok := a.pods[pod.UID]
	a.mu.Unlock()
	if !ok {
		return pod
	}
	same := apiequality.Semantic.DeepEqual(given.Pod, pod.Spec.Resources)
	for c := range podcontainers.All(pod) {
		same = same && given.is(c)
	}
	if same {
		return pod
	}
	other := *pod
	other.Spec.Resources = given.Pod
	other.Spec.Containers = slices.Clone(pod.Spec.Containers)
	other.Spec.InitContainers = slices.Clone(pod.Spec.InitContainers)
	for _, containers := range [][]corev1.Container{other.Spec.Containers, other.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			claims := c.Resources.Claims
			c.Resources = given.Containers[c.Name]
			c.Resources.Claims = claims
		}
	}
	return &other
}

func (g allocation) is(c *corev1.Container) bool {
	return apiequality.Semantic.DeepEqual(g.Containers[c.Name], WithoutClaims(c.Resources))
}

// WithoutClaims are the requests and limits alone: claims cannot be resized.
func WithoutClaims(r corev1.ResourceRequirements) corev1.ResourceRequirements {
	r.Claims = nil
	return r
}

// keepLocked writes the file. What cannot be written is lost with this process only.
func (a *Allocations) keepLocked() {
	if a.file == "" {
		return
	}
	if err := a.write(); err != nil {
		a.logger.Warn("the kubelet cannot write which resources pods were given; its next start takes what their specs ask for", "error", err)
	}
}

func (a *Allocations) write() error {
	data, err := json.Marshal(a.pods)
	if err != nil {
		return fmt.Errorf("encode allocations: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(a.file), 0o750); err != nil {
		return err
	}
	if err := os.WriteFile(a.file+".tmp", data, 0o600); err != nil {
		return err
	}
	return os.Rename(a.file+".tmp", a.file)
}

// All lists the pods that were given something.
func (a *Allocations) All() []types.UID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(maps.Keys(a.pods))
}
