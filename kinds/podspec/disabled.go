package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Features of Kubernetes 1.37 that are off unless somebody turns them on. The API has their fields already.
const (
	userFields       = "AtomicWriteVolumeUserFields"
	bindMountOptions = "VolumeBindMountOptions"
	emptyDirMode     = "EmptyDirVolumeMode"
	evictionRequests = "EvictionRequestAPI"
	genericWorkload  = "GenericWorkload"
	grpcTLS          = "GRPCContainerProbeTLS"
	h2c              = "H2CContainerProbe"
)

// DropDisabled clears the fields of features that are off, as upstream's dropDisabledFields (pkg/api/pod/util.go) does, and returns a
// warning for each, which upstream does not. What old uses already (it may have been stored by somebody else) stays. old is nil on
// create; path is that of the spec.
func DropDisabled(spec, old *corev1.PodSpec, path *field.Path) (warnings []string) {
	d := &disabled{}
	d.visit(spec)
	if len(d.found) == 0 {
		return nil
	}
	used := sets.New[string]()
	if old != nil {
		before := &disabled{}
		before.visit(old)
		for _, f := range before.found {
			used.Insert(f.feature)
		}
	}
	for _, f := range d.found {
		if !used.Has(f.feature) {
			f.clear()
			warnings = append(warnings, DroppedWarning(path.Child(f.name), f.feature))
		}
	}
	return warnings
}

// DropFrom makes of DropDisabled what the row of a kind wants that has a pod's spec; of finds the spec in an object, at the path whose
// elements follow.
func DropFrom[O any](of func(obj O) *corev1.PodSpec, first string, more ...string) func(obj, old O) []string {
	path := field.NewPath(first, more...)
	return func(obj, old O) []string {
		if any(old) == nil {
			return DropDisabled(of(obj), nil, path)
		}
		return DropDisabled(of(obj), of(old), path)
	}
}

// DroppedWarning is the warning of a field that is cleared because its feature is off.
func DroppedWarning(path *field.Path, feature string) string {
	return fmt.Sprintf("%s: dropped, it belongs to the feature %s, which is off in Kubernetes 1.37", path, feature)
}

// disabled finds the fields of features that are off.
type disabled struct{ found []disabledField }

type disabledField struct {
	name    string // path within the spec
	feature string
	clear   func()
}

func (d *disabled) visit(spec *corev1.PodSpec) {
	for i := range spec.Volumes {
		d.volume(&spec.Volumes[i], i)
	}
	for i := range spec.InitContainers {
		d.container(&spec.InitContainers[i], "initContainers", i)
	}
	for i := range spec.Containers {
		d.container(&spec.Containers[i], "containers", i)
	}
	for i := range spec.EphemeralContainers {
		d.container((*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon), "ephemeralContainers", i)
	}
	if len(spec.EvictionResponders) > 0 {
		d.add(evictionRequests, func() { spec.EvictionResponders = nil }, "evictionResponders")
	}
	optional(d, &spec.SchedulingGroup, genericWorkload, "schedulingGroup")
}

func (d *disabled) add(feature string, clear func(), format string, args ...any) {
	d.found = append(d.found, disabledField{name: fmt.Sprintf(format, args...), feature: feature, clear: clear})
}

// optional looks at an optional field. Nothing is made of its name unless it is there: nearly none ever is.
func optional[T any](d *disabled, p **T, feature, format string, args ...int) {
	if *p == nil {
		return
	}
	values := make([]any, len(args))
	for i, n := range args {
		values[i] = n
	}
	d.add(feature, func() { *p = nil }, format, values...)
}

func (d *disabled) volume(v *corev1.Volume, i int) {
	if v.EmptyDir != nil {
		optional(d, &v.EmptyDir.Mode, emptyDirMode, "volumes[%d].emptyDir.mode", i)
	}
	if v.Secret != nil {
		optional(d, &v.Secret.DefaultUser, userFields, "volumes[%d].secret.defaultUser", i)
		for j := range v.Secret.Items {
			optional(d, &v.Secret.Items[j].User, userFields, "volumes[%d].secret.items[%d].user", i, j)
		}
	}
	if v.ConfigMap != nil {
		optional(d, &v.ConfigMap.DefaultUser, userFields, "volumes[%d].configMap.defaultUser", i)
		for j := range v.ConfigMap.Items {
			optional(d, &v.ConfigMap.Items[j].User, userFields, "volumes[%d].configMap.items[%d].user", i, j)
		}
	}
	if v.DownwardAPI != nil {
		optional(d, &v.DownwardAPI.DefaultUser, userFields, "volumes[%d].downwardAPI.defaultUser", i)
		for j := range v.DownwardAPI.Items {
			optional(d, &v.DownwardAPI.Items[j].User, userFields, "volumes[%d].downwardAPI.items[%d].user", i, j)
		}
	}
	if v.Projected != nil {
		optional(d, &v.Projected.DefaultUser, userFields, "volumes[%d].projected.defaultUser", i)
		for j := range v.Projected.Sources {
			d.projection(&v.Projected.Sources[j], i, j)
		}
	}
}

func (d *disabled) projection(s *corev1.VolumeProjection, i, j int) {
	const at = "volumes[%d].projected.sources[%d]."
	if s.Secret != nil {
		for k := range s.Secret.Items {
			optional(d, &s.Secret.Items[k].User, userFields, at+"secret.items[%d].user", i, j, k)
		}
	}
	if s.ConfigMap != nil {
		for k := range s.ConfigMap.Items {
			optional(d, &s.ConfigMap.Items[k].User, userFields, at+"configMap.items[%d].user", i, j, k)
		}
	}
	if s.DownwardAPI != nil {
		for k := range s.DownwardAPI.Items {
			optional(d, &s.DownwardAPI.Items[k].User, userFields, at+"downwardAPI.items[%d].user", i, j, k)
		}
	}
	if s.ServiceAccountToken != nil {
		optional(d, &s.ServiceAccountToken.User, userFields, at+"serviceAccountToken.user", i, j)
	}
	if s.ClusterTrustBundle != nil {
		optional(d, &s.ClusterTrustBundle.User, userFields, at+"clusterTrustBundle.user", i, j)
	}
	if s.PodCertificate != nil {
		optional(d, &s.PodCertificate.User, userFields, at+"podCertificate.user", i, j)
	}
}

func (d *disabled) container(c *corev1.Container, list string, i int) {
	for j := range c.VolumeMounts {
		if m := &c.VolumeMounts[j]; len(m.BindMountOptions) > 0 {
			d.add(bindMountOptions, func() { m.BindMountOptions = nil }, "%s[%d].volumeMounts[%d].bindMountOptions", list, i, j)
		}
	}
	probe := func(p *corev1.Probe, name string) {
		switch {
		case p == nil:
		case p.HTTPGet != nil && p.HTTPGet.Protocol != nil:
			d.add(h2c, func() { p.HTTPGet.Protocol = nil }, "%s[%d].%s.httpGet.protocol", list, i, name)
		case p.GRPC != nil && p.GRPC.Mode != nil:
			d.add(grpcTLS, func() { p.GRPC.Mode = nil }, "%s[%d].%s.grpc.mode", list, i, name)
		}
	}
	probe(c.LivenessProbe, "livenessProbe")
	probe(c.ReadinessProbe, "readinessProbe")
	probe(c.StartupProbe, "startupProbe")
	hook := func(h *corev1.LifecycleHandler, name string) {
		if h != nil && h.HTTPGet != nil && h.HTTPGet.Protocol != nil {
			d.add(h2c, func() { h.HTTPGet.Protocol = nil }, "%s[%d].lifecycle.%s.httpGet.protocol", list, i, name)
		}
	}
	if c.Lifecycle != nil {
		hook(c.Lifecycle.PostStart, "postStart")
		hook(c.Lifecycle.PreStop, "preStop")
	}
}
