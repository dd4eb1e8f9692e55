package volumes

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/kubelet"
	"vigil/kubelet/volumes/mount"
)

// Config says what a manager works with. RootDir, NodeName, Objects and Client are required.
type Config struct {
	RootDir  string // the kubelet's root directory; it exists
	NodeName string
	Objects  Objects
	Client   kubernetes.Interface // with the node's own certificate
	Logger   *slog.Logger         // nil: nothing is logged
	Plugins  []Plugin             // asked before those of this package

	// LocalVolumes is the directory of the built-in provisioner's volumes on this node; "": there are none. It exists.
	LocalVolumes string

	// Allocatable is what pods may use of the node; "memory" bounds volumes in memory. Nil: they are not bounded.
	Allocatable func() corev1.ResourceList
	// Image pulls the image of an image volume if its policy asks for it, and returns its ID. Nil: there are no image volumes.
	Image func(ctx context.Context, pod *corev1.Pod, image string, policy corev1.PullPolicy) (string, error)
	// RecursiveReadOnly says whether the runtime can make mounts of a pod read-only with all that is mounted below. Nil: it cannot.
	RecursiveReadOnly func(ctx context.Context, pod *corev1.Pod) (bool, error)

	now func() time.Time
}

// Objects are the Secrets and ConfigMaps of the node's pods; package configobjects has them.
type Objects interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
	// OnChange has f called with the pods whose objects have changed.
	OnChange(f func(pods []types.UID))
}

// Manager makes the volumes of a node's pods. It is safe for concurrent use; calls for one pod wait for each other.
type Manager struct {
	config  Config
	root    string // RootDir without symlinks, as the table of mounts has it
	plugins []Plugin

	mu      sync.Mutex
	pods    map[types.UID]*podVolumes
	changed func(types.UID) // by Run; nil before
	wake    chan struct{}   // holds a token when something is due earlier than Run knows
}

var _ kubelet.Volumes = (*Manager)(nil)

// New makes a manager.
func New(config Config) (*Manager, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.now == nil {
		config.now = time.Now
	}
	root, err := filepath.EvalSymlinks(config.RootDir)
	if err != nil {
		return nil, fmt.Errorf("root directory of volumes: %w", err)
	}
	if root, err = filepath.Abs(root); err != nil {
		return nil, fmt.Errorf("root directory of volumes: %w", err)
	}
	m := &Manager{config: config, root: root, pods: map[types.UID]*podVolumes{}, wake: make(chan struct{}, 1)}
	m.plugins = append(slices.Clone(config.Plugins), m.builtin()...)
	config.Objects.OnChange(m.objectsChanged)
	return m, nil
}

// builtin are the plug-ins of this package.
func (m *Manager) builtin() []Plugin {
	empty := &emptyDir{allocatable: m.config.Allocatable}
	content := contentConfig{
		objects: m.config.Objects, empty: empty, now: m.config.now, allocatable: m.config.Allocatable,
		tokens: &tokens{client: m.config.Client, now: m.config.now, held: map[tokenKey]token{}},
		trust:  trust{client: m.config.Client},
		issued: &podCertificates{client: m.config.Client, node: m.config.NodeName, now: m.config.now, held: map[certificateKey]*credentials{}},
	}
	return []Plugin{
		empty, hostPath{}, &configMapPlugin{content}, &secretPlugin{content}, &downwardPlugin{content}, &projectedPlugin{content},
		&local{m.config.LocalVolumes}, nfs{}, image{},
	}
}

// podVolumes is what is known of a pod's volumes.
type podVolumes struct {
	mu      sync.Mutex // held for as long as the pod's volumes are worked at
	volumes map[string]*made
	shown   atomic.Pointer[[]shown] // volumes, for those who do not hold mu
	seen    seen                    // of the pod, by the last Mount
	trouble trouble                 // of the last Mount

	flags struct {
		sync.Mutex
		dirty bool      // something has changed since Mount last began, or there was none
		again time.Time // when Mount should look in any case; zero: not by time
	}
}

// made is a volume that SetUp has made.
type made struct {
	volume  *Volume
	plugin  Plugin
	mounted Mounted
}

// seen is what of a pod its volumes are made from.
type seen struct {
	generation          int64
	containers          int // ephemeral ones come without a new generation on old servers
	labels, annotations map[string]string
}

func seenOf(pod *corev1.Pod) seen {
	return seen{pod.Generation, len(pod.Spec.EphemeralContainers), pod.Labels, pod.Annotations}
}

func (s seen) equal(other seen) bool {
	return s.generation == other.generation && s.containers == other.containers && maps.Equal(s.labels, other.labels) && maps.Equal(s.annotations, other.annotations)
}

func (m *Manager) pod(uid types.UID) *podVolumes {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pods[uid]
	if p == nil {
		p = &podVolumes{volumes: map[string]*made{}}
		p.flags.dirty = true
		m.pods[uid] = p
	}
	return p
}

// podDir is the directory of a pod.
func (m *Manager) podDir(uid types.UID) string { return filepath.Join(m.root, "pods", string(uid)) }

// Mount makes the volumes that the pod's containers use, and brings the contents of those that there are up to date. Volumes that
// cannot be made do not hold up others. It does not wait: it fails with a *kubelet.VolumeError, which says when to call it again.
func (m *Manager) Mount(ctx context.Context, pod *corev1.Pod) error {
	p := m.pod(pod.UID)
	p.mu.Lock()
	defer p.mu.Unlock()
	now, look := m.config.now(), seenOf(pod)
	if quiet := p.clean(now) && p.seen.equal(look); quiet {
		if p.trouble.began.IsZero() {
			return nil
		}
		if now.Before(p.trouble.until) {
			return p.trouble.again(now)
		}
	}
	p.seen = look
	wanted := used(pod)
	var failures []failure
	for i := range pod.Spec.Volumes {
		spec := &pod.Spec.Volumes[i]
		if !wanted.mounts[spec.Name] && !wanted.devices[spec.Name] {
			continue
		}
		if err := m.mountOne(ctx, p, pod, spec, wanted); err != nil {
			failures = append(failures, failure{spec.Name, err})
		}
	}
	p.show()
	defer m.signal()
	if len(failures) > 0 {
		usable := true
		for _, f := range failures {
			usable = usable && p.volumes[f.name] != nil
		}
		err := p.trouble.report(failures, usable, now)
		p.schedule(p.trouble.until)
		return err
	}
	p.trouble = trouble{}
	p.schedule(time.Time{})
	return nil
}

// mountOne brings one volume to where it should be.
func (m *Manager) mountOne(ctx context.Context, p *podVolumes, pod *corev1.Pod, spec *corev1.Volume, wanted usedVolumes) error {
	have := p.volumes[spec.Name]
	if have != nil {
		due := !have.mounted.Again.IsZero() && !m.config.now().Before(have.mounted.Again)
		if !have.mounted.Live && !due {
			return nil
		}
		have.volume.Pod, have.volume.Spec = pod, spec
	} else {
		volume, err := m.resolve(ctx, pod, spec, wanted)
		if err != nil {
			return &unprocessed{err}
		}
		plugin := m.pluginFor(volume)
		if plugin == nil {
			return &unprocessed{fmt.Errorf("failed to get Plugin from volumeSpec for volume %q err=no volume plugin matched", volume.specName())}
		}
		volume.Place = m.place(pod.UID, plugin.Name(), volume.specName(), volume.Block)
		have = &made{volume: volume, plugin: plugin}
	}
	have.volume.Room = contentsLimit
	for name, other := range p.volumes {
		if name != spec.Name {
			have.volume.Room -= other.mounted.Contents
		}
	}
	err := m.allowed(ctx, have.volume.PV)
	var mounted Mounted
	if err == nil {
		mounted, err = have.plugin.SetUp(ctx, have.volume)
	}
	if err != nil {
		return errors.New(failed(have.volume, err))
	}
	have.mounted = mounted
	p.volumes[spec.Name] = have
	return nil
}

func (m *Manager) pluginFor(v *Volume) Plugin {
	for _, plugin := range m.plugins {
		if plugin.Supports(v) {
			return plugin
		}
	}
	return nil
}

// place is where a volume belongs.
func (m *Manager) place(uid types.UID, plugin, name string, block bool) Place {
	kind := "volumes"
	if block {
		kind = "volumeDevices"
	}
	return Place{
		PodUID: uid, Plugin: plugin, Name: name, IsBlock: block,
		Dir: filepath.Join(m.podDir(uid), kind, strings.ReplaceAll(plugin, "/", "~"), name),
	}
}

// clean says that nothing has happened since the last Mount. It takes note that Mount looks now.
func (p *podVolumes) clean(now time.Time) bool {
	p.flags.Lock()
	defer p.flags.Unlock()
	due := !p.flags.again.IsZero() && !now.Before(p.flags.again)
	clean := !p.flags.dirty && !due
	p.flags.dirty = false
	if due {
		p.flags.again = time.Time{}
	}
	return clean
}

func (p *podVolumes) requestDirty() {
	p.flags.Lock()
	p.flags.dirty = true
	p.flags.Unlock()
}

// schedule takes note of when the first volume wants to be looked at again; what is overdue, because it has failed, is not before a time.
func (p *podVolumes) schedule(notBefore time.Time) {
	var again time.Time
	for _, v := range p.volumes {
		if at := v.mounted.Again; !at.IsZero() && (again.IsZero() || at.Before(again)) {
			again = at
		}
	}
	if !again.IsZero() && again.Before(notBefore) {
		again = notBefore
	}
	p.flags.Lock()
	p.flags.again = again
	p.flags.Unlock()
}

// Groups are the supplemental groups that the pod's persistent volumes ask for (annotation pv.beta.kubernetes.io/gid).
func (m *Manager) Groups(pod *corev1.Pod) []int64 {
	p := m.pod(pod.UID)
	p.mu.Lock()
	defer p.mu.Unlock()
	var groups []int64
	for _, v := range p.volumes {
		if gid, ok := groupOf(v.volume.PV); ok && !slices.Contains(groups, gid) {
			groups = append(groups, gid)
		}
	}
	slices.Sort(groups)
	return groups
}

// Pods lists the pods that have a directory.
func (m *Manager) Pods() ([]types.UID, error) {
	entries, err := os.ReadDir(filepath.Join(m.root, "pods"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list the directories of pods: %w", err)
	}
	var uids []types.UID
	for _, entry := range entries {
		if entry.IsDir() {
			uids = append(uids, types.UID(entry.Name()))
		}
	}
	return uids, nil
}

// Run calls changed for pods whose volumes should be looked at again, until ctx ends. First it sees to it that mounts of containers and of
// the node can be seen on the other side (mountPropagation).
func (m *Manager) Run(ctx context.Context, changed func(pod types.UID)) error {
	if err := mount.Shared(m.root); err != nil {
		m.config.Logger.Warn("the kubelet could not make its mounts shared; mounts of containers are not seen on the node, nor the other way round", "error", err)
	}
	m.mu.Lock()
	m.changed = changed
	m.mu.Unlock()
	defer func() {
		m.mu.Lock()
		m.changed = nil
		m.mu.Unlock()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-m.wake:
		case <-timer.C:
		}
		next := m.due(changed)
		if next > 0 {
			timer.Reset(next)
		}
	}
}

// due calls changed for the pods whose time has come, and says how long nothing will be due; 0: for ever.
func (m *Manager) due(changed func(types.UID)) (next time.Duration) {
	now := m.config.now()
	m.mu.Lock()
	var pods []types.UID
	for uid, p := range m.pods {
		p.flags.Lock()
		again := p.flags.again
		if !again.IsZero() {
			if wait := again.Sub(now); wait <= 0 {
				pods = append(pods, uid)
				p.flags.again, p.flags.dirty = time.Time{}, true
			} else if next == 0 || wait < next {
				next = wait
			}
		}
		p.flags.Unlock()
	}
	m.mu.Unlock()
	for _, uid := range pods {
		changed(uid)
	}
	return next
}

func (m *Manager) signal() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// objectsChanged makes the pods' next Mount look at everything that is live.
func (m *Manager) objectsChanged(uids []types.UID) {
	m.mu.Lock()
	changed := m.changed
	for _, uid := range uids {
		if p := m.pods[uid]; p != nil {
			p.requestDirty()
		}
	}
	m.mu.Unlock()
	if changed == nil {
		return
	}
	for _, uid := range uids {
		changed(uid)
	}
}

// memory is the node's allocatable memory; nil when it is not known.
func memory(allocatable func() corev1.ResourceList) *resource.Quantity {
	if allocatable == nil {
		return nil
	}
	if q, ok := allocatable()[corev1.ResourceMemory]; ok && !q.IsZero() {
		return &q
	}
	return nil
}
