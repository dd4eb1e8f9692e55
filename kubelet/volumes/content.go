package volumes

import (
	"context"
	"fmt"
	"maps"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"

	"vigil/kubelet/volumes/internal/contents"
	"vigil/kubelet/volumes/mount"
)

// contentConfig is what volumes with contents from objects are made with.
type contentConfig struct {
	objects     Objects
	empty       *emptyDir
	tokens      *tokens
	trust       trust
	issued      *podCertificates
	allocatable func() corev1.ResourceList
	now         func() time.Time
}

// contentsLimit bounds what all volumes of a pod have that are made from objects, in bytes. One key of a ConfigMap may be asked for under any number of
// paths, and a pod may have its own annotations as often; what is written is the node's memory or disk, whatever the pod's limits are.
const contentsLimit = 256 << 20

// errNoRoom says that there would be more.
var errNoRoom = fmt.Errorf("the volumes of a pod that are made from objects may have %d bytes together", contentsLimit)

// put makes v a volume with the contents p: in memory (tmpfs), so that secrets are on no disk, or in a directory.
func (c *contentConfig) put(ctx context.Context, v *Volume, p contents.Payload, inMemory bool) (Mounted, error) {
	mounted := Mounted{Live: true, Own: true, ReadOnly: true, Contents: p.Size()}
	if mounted.Contents > v.Room {
		return mounted, errNoRoom
	}
	var err error
	if inMemory {
		err = c.empty.tmpfs(v.Dir, c.empty.size(v.Pod, nil))
	} else {
		err = makeDir(v.Dir, 0o777)
	}
	if err != nil {
		return mounted, err
	}
	if group := v.FSGroup(); group != nil && !matches(v.Dir, int(*group), true) {
		if err := mount.SetGroup(ctx, v.Dir, int(*group), readable, readable|enterable|os.ModeSetgid); err != nil {
			return mounted, err
		}
	}
	_, err = contents.Write(ctx, v.Dir, p, func(dir string) error { return SetOwnership(ctx, v, dir, true) })
	return mounted, err
}

// configMap gets the config map of a volume; one that is optional and not there is empty.
func (c *contentConfig) configMap(ctx context.Context, namespace, name string, optional bool) (*corev1.ConfigMap, error) {
	object, err := c.objects.ConfigMap(ctx, namespace, name)
	if optional && apierrors.IsNotFound(err) {
		return &corev1.ConfigMap{}, nil
	}
	return object, err
}

// secret gets the secret of a volume; one that is optional and not there is empty.
func (c *contentConfig) secret(ctx context.Context, namespace, name string, optional bool) (*corev1.Secret, error) {
	object, err := c.objects.Secret(ctx, namespace, name)
	if optional && apierrors.IsNotFound(err) {
		return &corev1.Secret{}, nil
	}
	return object, err
}

func isTrue(b *bool) bool { return b != nil && *b }

// configMapPlugin makes volumes of the keys of a ConfigMap.
type configMapPlugin struct{ contentConfig }

func (*configMapPlugin) Name() string { return "kubernetes.io/configmap" }

func (*configMapPlugin) Supports(v *Volume) bool { return v.PV == nil && v.Spec.ConfigMap != nil }

func (c *configMapPlugin) SetUp(ctx context.Context, v *Volume) (Mounted, error) {
	source := v.Spec.ConfigMap
	object, err := c.configMap(ctx, v.Pod.Namespace, source.Name, isTrue(source.Optional))
	if err != nil {
		return Mounted{}, err
	}
	p, err := configMapPayload(object, source.Items, source.DefaultMode, isTrue(source.Optional))
	if err != nil {
		return Mounted{}, err
	}
	return c.put(ctx, v, p, false)
}

func (*configMapPlugin) TearDown(ctx context.Context, p Place) error { return RemoveVolume(ctx, p.Dir) }

// secretPlugin makes volumes of the keys of a Secret.
type secretPlugin struct{ contentConfig }

func (*secretPlugin) Name() string { return "kubernetes.io/secret" }

func (*secretPlugin) Supports(v *Volume) bool { return v.PV == nil && v.Spec.Secret != nil }

func (c *secretPlugin) SetUp(ctx context.Context, v *Volume) (Mounted, error) {
	source := v.Spec.Secret
	object, err := c.secret(ctx, v.Pod.Namespace, source.SecretName, isTrue(source.Optional))
	if err != nil {
		return Mounted{}, err
	}
	p, err := secretPayload(object, source.Items, source.DefaultMode, isTrue(source.Optional))
	if err != nil {
		return Mounted{}, err
	}
	return c.put(ctx, v, p, true)
}

func (*secretPlugin) TearDown(ctx context.Context, p Place) error { return RemoveVolume(ctx, p.Dir) }

// downwardPlugin makes volumes of what a pod says about itself.
type downwardPlugin struct{ contentConfig }

func (*downwardPlugin) Name() string { return "kubernetes.io/downward-api" }

func (*downwardPlugin) Supports(v *Volume) bool { return v.PV == nil && v.Spec.DownwardAPI != nil }

func (c *downwardPlugin) SetUp(ctx context.Context, v *Volume) (Mounted, error) {
	p, err := downwardPayload(v.Pod, v.Spec.DownwardAPI.Items, v.Spec.DownwardAPI.DefaultMode, c.allocatable, v.Room)
	if err != nil {
		return Mounted{}, err
	}
	return c.put(ctx, v, p, true)
}

func (*downwardPlugin) TearDown(ctx context.Context, p Place) error { return RemoveVolume(ctx, p.Dir) }

// projectedPlugin makes volumes of several sources.
type projectedPlugin struct{ contentConfig }

func (*projectedPlugin) Name() string { return "kubernetes.io/projected" }

func (*projectedPlugin) Supports(v *Volume) bool { return v.PV == nil && v.Spec.Projected != nil }

func (c *projectedPlugin) SetUp(ctx context.Context, v *Volume) (Mounted, error) {
	var failures []error
	all, room, configMaps := contents.Payload{}, v.Room, map[string]map[string][]byte{}
	var again time.Time
	for i := range v.Spec.Projected.Sources {
		part, until, err := c.source(ctx, v, i, room, configMaps)
		if err != nil {
			failures = append(failures, err)
			continue
		}
		if room -= part.Size(); room < 0 {
			return Mounted{}, errNoRoom
		}
		maps.Copy(all, part)
		if !until.IsZero() && (again.IsZero() || until.Before(again)) {
			again = until
		}
	}
	if len(failures) > 0 {
		return Mounted{}, utilerrors.NewAggregate(failures)
	}
	mounted, err := c.put(ctx, v, all, true)
	mounted.Again = again
	return mounted, err
}

// source makes the part of the i-th source, and says until when it is good; zero: until something changes. configMaps are those that other sources
// have asked for.
func (c *projectedPlugin) source(ctx context.Context, v *Volume, i, room int, configMaps map[string]map[string][]byte) (contents.Payload, time.Time, error) {
	pod, source, byDefault := v.Pod, &v.Spec.Projected.Sources[i], v.Spec.Projected.DefaultMode
	switch {
	case source.Secret != nil:
		optional := isTrue(source.Secret.Optional)
		object, err := c.secret(ctx, pod.Namespace, source.Secret.Name, optional)
		if err != nil {
			return nil, time.Time{}, err
		}
		p, err := secretPayload(object, source.Secret.Items, byDefault, optional)
		return p, time.Time{}, err
	case source.ConfigMap != nil:
		optional := isTrue(source.ConfigMap.Optional)
		name := source.ConfigMap.Name
		if configMaps[name] == nil {
			object, err := c.configMap(ctx, pod.Namespace, name, optional)
			if err != nil {
				return nil, time.Time{}, err
			}
			configMaps[name] = configMapData(object)
		}
		p, err := keyed("config", configMaps[name], source.ConfigMap.Items, byDefault, optional)
		return p, time.Time{}, err
	case source.DownwardAPI != nil:
		p, err := downwardPayload(pod, source.DownwardAPI.Items, byDefault, c.allocatable, room)
		return p, time.Time{}, err
	case source.ServiceAccountToken != nil:
		held, err := c.tokens.get(ctx, pod, source.ServiceAccountToken)
		if err != nil {
			return nil, time.Time{}, err
		}
		f := private(pod, byDefault)
		f.Data = []byte(held.value)
		return contents.Payload{source.ServiceAccountToken.Path: f}, held.refresh, nil
	case source.ClusterTrustBundle != nil:
		pem, err := c.trust.anchors(ctx, source.ClusterTrustBundle)
		if err != nil {
			return nil, time.Time{}, err
		}
		f := private(pod, byDefault)
		f.Data = pem
		return contents.Payload{source.ClusterTrustBundle.Path: f}, c.now().Add(trustPeriod), nil
	case source.PodCertificate != nil:
		key, chain, again, err := c.issued.get(ctx, pod, certificateKey{pod.UID, v.Spec.Name, i}, source.PodCertificate)
		if err != nil {
			return nil, time.Time{}, err
		}
		return c.issued.files(pod, source.PodCertificate, byDefault, key, chain), again, nil
	}
	return contents.Payload{}, time.Time{}, nil
}

// private is a file that is for the pod's user only where there is one or where its group is, and for all otherwise.
func private(pod *corev1.Pod, byDefault *int32) contents.File {
	f := contents.File{Mode: mode(nil, byDefault, corev1.ProjectedVolumeSourceDefaultMode), User: runsAs(pod)}
	if f.User != nil || pod.Spec.SecurityContext != nil && pod.Spec.SecurityContext.FSGroup != nil {
		f.Mode = 0o600
	}
	return f
}

// runsAs is the user that all containers of a pod run as, but for ephemeral ones: whoever debugs a pod does not open its tokens to all. Nil
// when they differ, or none is named.
func runsAs(pod *corev1.Pod) *int64 {
	var common *int64
	if pod.Spec.SecurityContext != nil {
		common = pod.Spec.SecurityContext.RunAsUser
	}
	var one *int64
	same := true
	see := func(c *corev1.SecurityContext) {
		user := common
		if c != nil && c.RunAsUser != nil {
			user = c.RunAsUser
		}
		if user == nil || one != nil && *one != *user {
			same = false
			return
		}
		one = user
	}
	for i := range pod.Spec.InitContainers {
		see(pod.Spec.InitContainers[i].SecurityContext)
	}
	for i := range pod.Spec.Containers {
		see(pod.Spec.Containers[i].SecurityContext)
	}
	if !same {
		return nil
	}
	return one
}

func (*projectedPlugin) TearDown(ctx context.Context, p Place) error { return RemoveVolume(ctx, p.Dir) }

// forget lets go of a pod's tokens and keys.
func (c *projectedPlugin) forget(uid types.UID) {
	c.tokens.forget(uid)
	c.issued.forget(uid)
}
