package csi

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/kubelet/volumes"
)

// Config says what a plug-in works with. All but Logger is required.
type Config struct {
	RootDir  string // the kubelet's root directory; it exists
	NodeName string
	Client   kubernetes.Interface // with the node's own certificate
	Logger   *slog.Logger         // nil: nothing is logged
}

// Plugin makes the volumes of CSI drivers. It is safe for concurrent use.
type Plugin struct {
	root, node string
	client     kubernetes.Interface
	logger     *slog.Logger
	registry   *registry
	volumes    locks // by driver and handle
	tokens     tokens

	mu     sync.Mutex
	staged map[string]bool                                        // by lockKey: by this process
	inUse  map[corev1.UniqueVolumeName]map[volumes.Place]struct{} // attached volumes
}

var _ volumes.Plugin = (*Plugin)(nil)

// New makes a plug-in. It finds the volumes that another process has left.
func New(config Config) (*Plugin, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	root, err := filepath.EvalSymlinks(config.RootDir)
	if err == nil {
		root, err = filepath.Abs(root)
	}
	if err != nil {
		return nil, fmt.Errorf("root directory of CSI volumes: %w", err)
	}
	p := &Plugin{
		root: root, node: config.NodeName, client: config.Client, logger: config.Logger,
		volumes: locks{held: map[string]*lock{}}, tokens: tokens{client: config.Client, held: map[tokenKey]token{}},
		staged: map[string]bool{}, inUse: map[corev1.UniqueVolumeName]map[volumes.Place]struct{}{},
	}
	p.registry = newRegistry(filepath.Join(root, "plugins_registry"), &nodeObject{name: config.NodeName, client: config.Client}, config.Logger)
	if err := p.all(p.use); err != nil {
		config.Logger.Warn("the kubelet cannot read the records of some CSI volumes that it finds; it may report them as not in use", "error", err)
	}
	return p, nil
}

// Run registers drivers until ctx ends.
func (p *Plugin) Run(ctx context.Context) error { return p.registry.run(ctx) }

// Name implements volumes.Plugin.
func (*Plugin) Name() string { return Name }

// Supports implements volumes.Plugin.
func (*Plugin) Supports(v *volumes.Volume) bool {
	if v.PV != nil {
		return v.PV.Spec.CSI != nil
	}
	return v.Spec.CSI != nil
}

// InUse lists the attached volumes that pods of this node have, as node.status.volumesInUse does.
func (p *Plugin) InUse() []corev1.UniqueVolumeName {
	p.mu.Lock()
	defer p.mu.Unlock()
	var names []corev1.UniqueVolumeName
	for name := range p.inUse {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// uniqueName is how a Node's status names a volume.
func uniqueName(d data) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName(Name + "/" + d.Driver + "^" + d.Handle)
}

// spot is what of a place the disk shows.
func spot(at volumes.Place) volumes.Place { return volumes.Place{Dir: at.Dir} }

// use takes note that a pod has a volume.
func (p *Plugin) use(at volumes.Place, d data) {
	if d.Attachment == "" {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	name := uniqueName(d)
	if p.inUse[name] == nil {
		p.inUse[name] = map[volumes.Place]struct{}{}
	}
	p.inUse[name][spot(at)] = struct{}{}
}

// unuse takes note that a pod does not have a volume any more.
func (p *Plugin) unuse(at volumes.Place, d data) {
	p.mu.Lock()
	defer p.mu.Unlock()
	name := uniqueName(d)
	delete(p.inUse[name], spot(at))
	if len(p.inUse[name]) == 0 {
		delete(p.inUse, name)
	}
}

func lockKey(d data) string { return d.Driver + "^" + d.Handle }

// setStaged takes note of whether a volume is staged.
func (p *Plugin) setStaged(d data, staged bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if staged {
		p.staged[lockKey(d)] = true
	} else {
		delete(p.staged, lockKey(d))
	}
}

func (p *Plugin) isStaged(d data) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.staged[lockKey(d)]
}

// republishPeriod is how often a volume is published again for a driver that wants that (CSIDriver.spec.requiresRepublish).
const republishPeriod = time.Minute
