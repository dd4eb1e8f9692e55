package env

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/kubelet"
	"vigil/kubelet/internal/downward"
	"vigil/kubelet/internal/expand"
)

// Var is an environment variable.
type Var = kubelet.EnvVar

// Objects gives ConfigMaps and Secrets; kubelet.Objects does. It fails as the API server does: with NotFound, Forbidden ...
type Objects interface {
	Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error)
	ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error)
}

// Maker makes environments. It is a kubelet.Environment. Its fields do not change once it is in use; any number of goroutines may
// use it.
type Maker struct {
	Objects  Objects   // nil: a variable that needs one is an error
	Services *Services // nil: there are no service links
	RootDir  string    // the kubelet's, where fileKeyRef (KEP-3721) finds emptyDir volumes
	// Allocatable stands in for limits that a container does not have. nil: they are 0.
	Allocatable func() corev1.ResourceList
}

var _ kubelet.Environment = (*Maker)(nil)

// Container implements kubelet.Environment. It fails with expand.ErrTooLong when a process could not be given all that.
func (m *Maker) Container(ctx context.Context, pod *corev1.Pod, container *corev1.Container) (vars []Var, command, args []string, err error) {
	vars, err = m.Variables(ctx, pod, container)
	if err != nil {
		return nil, nil, nil, err
	}
	values := make(map[string]string, len(vars))
	for _, v := range vars {
		values[v.Name] = v.Value
	}
	value := func(name string) (string, bool) {
		v, ok := values[name]
		return v, ok
	}
	if command, err = expand.All(container.Command, value); err == nil {
		args, err = expand.All(container.Args, value)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	total := 0
	for _, v := range vars {
		total += size(v.Name, v.Value)
	}
	for _, words := range [][]string{command, args} {
		for _, word := range words {
			total += len(word) + 1
		}
	}
	if total > expand.TotalLimit {
		return nil, nil, nil, fmt.Errorf("environment and command: more than %d bytes: %w", expand.TotalLimit, expand.ErrTooLong)
	}
	return vars, command, args, nil
}

// size is what a variable takes of what a process is given: "NAME=value" and a NUL.
func size(name, value string) int { return len(name) + len(value) + 2 }

// Variables returns the environment of a container. Its errors are for people: the message of CreateContainerConfigError.
func (m *Maker) Variables(ctx context.Context, pod *corev1.Pod, container *corev1.Container) ([]Var, error) {
	if pod.Spec.EnableServiceLinks == nil {
		return nil, errors.New("nil pod.spec.enableServiceLinks encountered, cannot construct envvars")
	}
	b := builder{maker: m, ctx: ctx, pod: pod, container: container}
	if m.Services != nil {
		if !m.Services.synced() && !kubelet.FromManifest(pod) {
			return nil, errors.New("services have not yet been read at least once, cannot construct envvars")
		}
		b.services = m.Services.variables(pod.Namespace, *pod.Spec.EnableServiceLinks)
	}
	for i := range container.EnvFrom {
		if err := b.from(&container.EnvFrom[i]); err != nil {
			return nil, err
		}
	}
	for i := range container.Env {
		variable := &container.Env[i]
		value, set, err := b.value(variable)
		if err != nil {
			return nil, err
		}
		if !set {
			continue
		}
		if err := b.set(variable.Name, value); err != nil {
			return nil, err
		}
	}
	return b.finish(), nil
}

// builder makes one environment.
type builder struct {
	maker     *Maker
	ctx       context.Context // of the one call that the builder serves
	pod       *corev1.Pod
	container *corev1.Container
	services  [2][]Var // sorted by name; shared, never changed

	vars       []Var
	size       int            // of vars
	at         map[string]int // where a name is in vars
	configMaps map[string]*corev1.ConfigMap
	secrets    map[string]*corev1.Secret
	files      map[[2]string]*variables // by directory of the volume and path
}

// set adds a variable or replaces the one of its name. It fails when no process could be given it, or all of them.
func (b *builder) set(name, value string) error {
	if size(name, value) > expand.Limit+1 {
		return tooLong(name, expand.Limit)
	}
	at, there := b.at[name]
	if there {
		b.size -= size(name, b.vars[at].Value)
	}
	if b.size += size(name, value); b.size > expand.TotalLimit {
		return fmt.Errorf("environment: more than %d bytes: %w", expand.TotalLimit, expand.ErrTooLong)
	}
	if there {
		b.vars[at].Value = value
		return nil
	}
	if b.at == nil {
		b.at = map[string]int{}
	}
	b.at[name] = len(b.vars)
	b.vars = append(b.vars, Var{Name: name, Value: value})
	return nil
}

func tooLong(name string, limit int) error {
	return fmt.Errorf("environment variable %s: more than %d bytes: %w", name, limit, expand.ErrTooLong)
}

// lookup finds what $(name) stands for: a variable set so far, or one of a service.
func (b *builder) lookup(name string) (string, bool) {
	if at, ok := b.at[name]; ok {
		return b.vars[at].Value, true
	}
	for _, vars := range b.services {
		if at, ok := slices.BinarySearchFunc(vars, name, byName); ok {
			return vars[at].Value, true
		}
	}
	return "", false
}

func byName(v Var, name string) int { return strings.Compare(v.Name, name) }

// finish returns the variables that were set, and behind them those of services that nothing has set.
func (b *builder) finish() []Var {
	b.vars = slices.Grow(b.vars, len(b.services[0])+len(b.services[1]))
	for i, vars := range b.services {
		for _, v := range vars {
			if _, set := b.at[v.Name]; set {
				continue
			}
			if i > 0 {
				if _, first := slices.BinarySearchFunc(b.services[0], v.Name, byName); first {
					continue
				}
			}
			b.vars = append(b.vars, v)
		}
	}
	return b.vars
}

// from sets the variables of a whole ConfigMap or Secret.
func (b *builder) from(source *corev1.EnvFromSource) error {
	switch {
	case source.ConfigMapRef != nil:
		configMap, err := b.configMap(source.ConfigMapRef.Name, source.ConfigMapRef.Optional)
		if err != nil || configMap == nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(configMap.Data)) {
			if err := b.set(source.Prefix+key, configMap.Data[key]); err != nil {
				return err
			}
		}
	case source.SecretRef != nil:
		secret, err := b.secret(source.SecretRef.Name, source.SecretRef.Optional)
		if err != nil || secret == nil {
			return err
		}
		for _, key := range slices.Sorted(maps.Keys(secret.Data)) {
			if err := b.set(source.Prefix+key, string(secret.Data[key])); err != nil {
				return err
			}
		}
	}
	return nil
}

// value finds the value of a variable. set is false when what it refers to is optional and not there.
func (b *builder) value(variable *corev1.EnvVar) (value string, set bool, err error) {
	from := variable.ValueFrom
	switch {
	case variable.Value != "" || from == nil:
		value, err := expand.String(variable.Value, b.lookup, expand.Limit)
		if err != nil {
			return "", false, tooLong(variable.Name, expand.Limit)
		}
		return value, true, nil
	case from.FieldRef != nil:
		value, err = downward.Field(b.pod, from.FieldRef.FieldPath)
		return value, true, err
	case from.ResourceFieldRef != nil:
		var allocatable corev1.ResourceList
		if b.maker.Allocatable != nil {
			allocatable = b.maker.Allocatable()
		}
		value, err = downward.Resource(b.pod, b.container, from.ResourceFieldRef, allocatable)
		return value, true, err
	case from.ConfigMapKeyRef != nil:
		return b.configMapKey(from.ConfigMapKeyRef)
	case from.SecretKeyRef != nil:
		return b.secretKey(from.SecretKeyRef)
	case from.FileKeyRef != nil:
		return b.fileKey(from.FileKeyRef)
	}
	return "", true, nil
}

func (b *builder) configMapKey(ref *corev1.ConfigMapKeySelector) (value string, set bool, err error) {
	configMap, err := b.configMap(ref.Name, ref.Optional)
	if err != nil || configMap == nil {
		return "", false, err
	}
	value, ok := configMap.Data[ref.Key]
	if !ok && !isTrue(ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %v in ConfigMap %v/%v", ref.Key, b.pod.Namespace, ref.Name)
	}
	return value, ok, nil
}

func (b *builder) secretKey(ref *corev1.SecretKeySelector) (value string, set bool, err error) {
	secret, err := b.secret(ref.Name, ref.Optional)
	if err != nil || secret == nil {
		return "", false, err
	}
	bytes, ok := secret.Data[ref.Key]
	if !ok && !isTrue(ref.Optional) {
		return "", false, fmt.Errorf("couldn't find key %v in Secret %v/%v", ref.Key, b.pod.Namespace, ref.Name)
	}
	return string(bytes), ok, nil
}

// configMap gets a ConfigMap, once for each environment. It is nil when it is optional and not there.
func (b *builder) configMap(name string, optional *bool) (*corev1.ConfigMap, error) {
	if have := b.configMaps[name]; have != nil {
		return have, nil
	}
	if b.maker.Objects == nil {
		return nil, fmt.Errorf("couldn't get configMap %v/%v, no kubeClient defined", b.pod.Namespace, name)
	}
	got, err := b.maker.Objects.ConfigMap(b.ctx, b.pod.Namespace, name)
	if apierrors.IsNotFound(err) {
		if isTrue(optional) {
			return nil, nil
		}
		return nil, apierrors.NewNotFound(corev1.Resource("configmap"), name)
	}
	if err != nil {
		return nil, err
	}
	if b.configMaps == nil {
		b.configMaps = map[string]*corev1.ConfigMap{}
	}
	b.configMaps[name] = got
	return got, nil
}

// secret is configMap for Secrets.
func (b *builder) secret(name string, optional *bool) (*corev1.Secret, error) {
	if have := b.secrets[name]; have != nil {
		return have, nil
	}
	if b.maker.Objects == nil {
		return nil, fmt.Errorf("couldn't get secret %v/%v, no kubeClient defined", b.pod.Namespace, name)
	}
	got, err := b.maker.Objects.Secret(b.ctx, b.pod.Namespace, name)
	if apierrors.IsNotFound(err) {
		if isTrue(optional) {
			return nil, nil
		}
		return nil, apierrors.NewNotFound(corev1.Resource("secret"), name)
	}
	if err != nil {
		return nil, err
	}
	if b.secrets == nil {
		b.secrets = map[string]*corev1.Secret{}
	}
	b.secrets[name] = got
	return got, nil
}

func isTrue(b *bool) bool { return b != nil && *b }
