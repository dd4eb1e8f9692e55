package cgroups

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kinds/podspec"
)

// Config says where the tree is and what holds for every pod. The names are those of upstream's flags.
type Config struct {
	Root              string        // --cgroup-root, a path in every hierarchy; "": "/"
	PodPidsLimit      int64         // --pod-max-pids; at most 0: no limit
	NoCPUCFSQuota     bool          // --cpu-cfs-quota=false: limits of cpu are not enforced
	CPUCFSQuotaPeriod time.Duration // --cpu-cfs-quota-period; 0: 100 ms
}

// Tree is the groups of one node's pods. Its methods may be called from many goroutines; those about one pod one after another.
type Tree struct {
	config      Config
	hierarchies []hierarchy
	v2          bool              // the controllers are in the unified hierarchy
	controller  map[string]string // directory of the hierarchy by controller; v2: all in one

	mu        sync.Mutex
	applied   map[types.UID]state
	burstable int64   // cpu.shares of the burstable pods as last written
	owed      *Limits // of kubepods, not taken by the kernel yet; nil: none
}

// state is what this process has given a pod's group.
type state struct {
	limits    Limits
	settled   bool // the kernel has taken all of them
	burstable bool
	milliCPU  int64 // requested, in thousandths of a CPU
}

// New finds the machine's hierarchies. It changes nothing yet.
func New(config Config) (*Tree, error) {
	found, err := mounted()
	if err != nil {
		return nil, err
	}
	return newTree(config, found)
}

func newTree(config Config, hierarchies []hierarchy) (*Tree, error) {
	config.Root = path.Clean("/" + config.Root)
	config.CPUCFSQuotaPeriod = cmp.Or(config.CPUCFSQuotaPeriod, defaultPeriod)
	t := &Tree{config: config, hierarchies: hierarchies, controller: map[string]string{}, applied: map[types.UID]state{}}
	unified := ""
	for _, h := range hierarchies {
		if h.unified {
			unified = h.dir
		}
		for _, name := range h.controllers {
			t.controller[name] = h.dir
		}
	}
	if _, ok := t.controller["memory"]; ok {
		return t, nil
	}
	if unified == "" {
		return nil, errors.New("the memory controller is in no cgroup hierarchy")
	}
	available, err := os.ReadFile(filepath.Join(unified, "cgroup.controllers"))
	if err != nil {
		return nil, fmt.Errorf("find the controllers of cgroup v2: %w", err)
	}
	t.v2 = true
	for name := range strings.FieldsSeq(string(available)) {
		t.controller[name] = unified
	}
	return t, nil
}

// Version is that of the cgroups that have the controllers: 1 or 2.
func (t *Tree) Version() int {
	if t.v2 {
		return 2
	}
	return 1
}

// PodsPath is the group of all pods.
func (t *Tree) PodsPath() string { return path.Join(t.config.Root, "kubepods") }

// Setup makes the groups above the pods' and limits kubepods to allocatable: cpu by shares, memory and "pid" by limits, each if
// there. A limit of memory below what pods use already is refused by the kernel in v1; then it is no error, and every Ensure tries
// again: evictions are expected to make room.
func (t *Tree) Setup(allocatable corev1.ResourceList) error {
	for _, dir := range []string{t.PodsPath(), t.tier(corev1.PodQOSBurstable), t.tier(corev1.PodQOSBestEffort)} {
		if err := t.create(dir); err != nil {
			return err
		}
	}
	if err := errors.Join(t.apply(t.tier(corev1.PodQOSBestEffort), Limits{CPUShares: minShares}), t.weighBurstable()); err != nil {
		return err
	}
	limits := nodeLimits(allocatable)
	t.mu.Lock()
	t.owed = &limits
	t.mu.Unlock()
	return t.limitNode()
}

// limitNode gives kubepods the limits that it is owed.
func (t *Tree) limitNode() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.owed == nil {
		return nil
	}
	if err := t.apply(t.PodsPath(), *t.owed); err != nil {
		if errors.Is(err, syscall.EBUSY) {
			return nil
		}
		return err
	}
	t.owed = nil
	return nil
}

// tier is the group of all pods of a class.
func (t *Tree) tier(class corev1.PodQOSClass) string {
	if class == corev1.PodQOSGuaranteed {
		return t.PodsPath()
	}
	return path.Join(t.PodsPath(), strings.ToLower(string(class)))
}

// Path is the group of a pod, the cgroup_parent of its sandbox and containers: "/kubepods/burstable/podUID".
func (t *Tree) Path(pod *corev1.Pod) string {
	return path.Join(t.tier(podspec.QOSClass(&pod.Spec)), "pod"+string(pod.UID))
}

// Ensure makes the group of a pod or brings its limits up to date, and returns its path. It is cheap when nothing has changed. After a
// start of the kubelet it is to be called for every pod that runs, so that the weight of burstable pods is right.
//
// The kernel refuses limits below what the containers have, or use in v1: those of a pod that shrinks are tried again by the
// next Ensure, after its containers have shrunk, and are no error.
func (t *Tree) Ensure(pod *corev1.Pod) (parent string, err error) {
	if err := t.limitNode(); err != nil {
		return "", err
	}
	parent = t.Path(pod)
	limits := t.limitsOf(pod)
	there := t.exists(parent)
	if there && t.settled(pod.UID, limits) {
		return parent, nil
	}
	if !there {
		if err := t.create(parent); err != nil {
			return "", err
		}
	}
	err = t.apply(parent, limits)
	refused := errors.Is(err, syscall.EBUSY) || errors.Is(err, syscall.EINVAL)
	if err != nil && (!refused || !there) {
		return "", err
	}
	t.mu.Lock()
	t.applied[pod.UID] = state{limits: limits, settled: err == nil, burstable: podspec.QOSClass(&pod.Spec) == corev1.PodQOSBurstable, milliCPU: requestedCPU(pod)}
	t.mu.Unlock()
	return parent, t.weighBurstable()
}

// settled says whether a pod's group has these limits as far as this process knows.
func (t *Tree) settled(pod types.UID, limits Limits) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	have, ok := t.applied[pod]
	return ok && have.settled && have.limits.equal(limits)
}

// weighBurstable gives all burstable pods together the weight of what they ask for.
func (t *Tree) weighBurstable() error {
	t.mu.Lock()
	defer t.mu.Unlock() // also while writing: the last sum is to be the last one written
	sum := int64(0)
	for _, pod := range t.applied {
		if pod.burstable {
			sum += pod.milliCPU
		}
	}
	if t.burstable == Shares(sum) {
		return nil
	}
	if err := t.apply(t.tier(corev1.PodQOSBurstable), Limits{CPUShares: Shares(sum)}); err != nil {
		return err
	}
	t.burstable = Shares(sum)
	return nil
}

// Pods lists the pods that have a group, also those of a kubelet before this one.
func (t *Tree) Pods() ([]types.UID, error) {
	found := map[types.UID]bool{}
	for _, h := range t.hierarchies {
		for _, class := range classes {
			entries, err := os.ReadDir(filepath.Join(h.dir, t.tier(class)))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, fmt.Errorf("list the groups of pods: %w", err)
			}
			for _, entry := range entries {
				if uid, ok := strings.CutPrefix(entry.Name(), "pod"); ok && entry.IsDir() {
					found[types.UID(uid)] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

var classes = []corev1.PodQOSClass{corev1.PodQOSGuaranteed, corev1.PodQOSBurstable, corev1.PodQOSBestEffort}

// Remove kills what is left of a pod and removes its groups, wherever they are. It waits up to removeTimeout for the processes to end.
// A pod without groups is no error.
func (t *Tree) Remove(pod types.UID) error {
	if pod == "" || strings.ContainsAny(string(pod), "/\x00") {
		return fmt.Errorf("remove the group of a pod: %q is no UID", pod)
	}
	for _, class := range classes {
		if err := t.remove(path.Join(t.tier(class), "pod"+string(pod))); err != nil {
			return err
		}
	}
	t.mu.Lock()
	counted := t.applied[pod].burstable
	delete(t.applied, pod)
	t.mu.Unlock()
	if counted && t.exists(t.tier(corev1.PodQOSBurstable)) {
		return t.weighBurstable()
	}
	return nil
}

// RemoveAll kills all pods and removes the tree up to Root, which goes too, with all in it, unless it is "/".
func (t *Tree) RemoveAll() error {
	if err := t.remove(t.PodsPath()); err != nil {
		return err
	}
	if t.config.Root == "/" {
		return nil
	}
	return t.remove(t.config.Root)
}
