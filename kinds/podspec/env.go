package podspec

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

func (c *checker) checkEnv(vars []corev1.EnvVar, path *field.Path) {
	for i := range vars {
		at := path.Index(i)
		if vars[i].Name == "" {
			c.add(field.Required(at.Child("name"), ""))
		} else {
			c.add(validate.Each(vars[i].Name, at.Child("name"), validation.IsRelaxedEnvVarName)...)
		}
		if vars[i].ValueFrom != nil {
			c.checkEnvSource(&vars[i], at.Child("valueFrom"))
		}
	}
}

func (c *checker) checkEnvSource(env *corev1.EnvVar, path *field.Path) {
	from, sources := env.ValueFrom, 0
	if from.FieldRef != nil {
		sources++
		c.checkFieldRef(from.FieldRef, envFieldPaths, path.Child("fieldRef"))
	}
	if from.ResourceFieldRef != nil {
		sources++
		c.checkResourceFieldRef(from.ResourceFieldRef, false, path.Child("resourceFieldRef"))
	}
	if from.ConfigMapKeyRef != nil {
		sources++
		c.checkKeyRef(from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, path.Child("configMapKeyRef"))
	}
	if from.SecretKeyRef != nil {
		sources++
		c.checkKeyRef(from.SecretKeyRef.Name, from.SecretKeyRef.Key, path.Child("secretKeyRef"))
	}
	if from.FileKeyRef != nil {
		sources++
		c.checkFileKeyRef(from.FileKeyRef, path.Child("fileKeyRef"))
	}
	switch {
	case sources == 0:
		c.add(field.Invalid(path, "", "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"))
	case env.Value != "":
		c.add(field.Invalid(path, "", "may not be specified when `value` is not empty"))
	case sources > 1:
		c.add(field.Invalid(path, "", textOneField))
	}
}

func (c *checker) checkKeyRef(name, key string, path *field.Path) {
	c.add(validate.Name(name, path.Child("name"))...)
	if key == "" {
		c.add(field.Required(path.Child("key"), ""))
	} else {
		c.add(validate.Each(key, path.Child("key"), validation.IsConfigMapKey)...)
	}
}

// checkFileKeyRef checks a variable that an init container writes into a file (KEP-3721): the file is in an emptyDir.
func (c *checker) checkFileKeyRef(ref *corev1.FileKeySelector, path *field.Path) {
	if ref.Key == "" {
		c.add(field.Required(path.Child("key"), ""))
	} else {
		c.add(validate.Each(ref.Key, path.Child("key"), validation.IsRelaxedEnvVarName)...)
	}
	if ref.VolumeName == "" {
		c.add(field.Required(path.Child("volumeName"), ""))
	} else if source := c.volumes[ref.VolumeName]; source == nil {
		c.add(field.NotFound(path.Child("volumeName"), ref.VolumeName))
	} else if source.EmptyDir == nil {
		c.add(field.Invalid(path.Child("volumeName"), ref.VolumeName, "referenced volume must be of type emptyDir"))
	}
	if ref.Path == "" {
		c.add(field.Required(path.Child("path"), ""))
	} else {
		c.add(plainRelativePath(ref.Path, path.Child("path"))...)
	}
}

func (c *checker) checkEnvFrom(sources []corev1.EnvFromSource, path *field.Path) {
	for i, source := range sources {
		at := path.Index(i)
		if source.Prefix != "" {
			c.add(validate.Each(source.Prefix, at.Child("prefix"), validation.IsRelaxedEnvVarName)...)
		}
		if source.ConfigMapRef != nil {
			c.checkEnvFromName(source.ConfigMapRef.Name, at.Child("configMapRef", "name"))
		}
		if source.SecretRef != nil {
			c.checkEnvFromName(source.SecretRef.Name, at.Child("secretRef", "name"))
		}
		switch {
		case source.ConfigMapRef == nil && source.SecretRef == nil:
			c.add(field.Invalid(path, "", "must specify one of: `configMapRef` or `secretRef`"))
		case source.ConfigMapRef != nil && source.SecretRef != nil:
			c.add(field.Invalid(path, "", textOneField))
		}
	}
}

func (c *checker) checkEnvFromName(name string, path *field.Path) {
	if name == "" {
		c.add(field.Required(path, ""))
		return
	}
	c.add(validate.Each(name, path, func(name string) []string { return apivalidation.NameIsDNSSubdomain(name, true) })...)
}

// The fields of its own pod that a container can ask for, sorted as error texts show them.
var (
	envFieldPaths = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	volumeFieldPaths = []string{
		"metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
	}
	// knownFieldPaths are those that are fields of a pod at all.
	knownFieldPaths = append([]string{"metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName", "status.phase"}, envFieldPaths...)

	resourceFields = []string{
		"limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory",
	}
)

func (c *checker) checkFieldRef(ref *corev1.ObjectFieldSelector, supported []string, path *field.Path) {
	if ref.APIVersion == "" {
		c.add(field.Required(path.Child("apiVersion"), ""))
		return
	}
	if ref.FieldPath == "" {
		c.add(field.Required(path.Child("fieldPath"), ""))
		return
	}
	if ref.APIVersion != "v1" {
		c.add(field.Invalid(path.Child("fieldPath"), ref.FieldPath, fmt.Sprintf("error converting fieldPath: unsupported pod version: %s", ref.APIVersion)))
		return
	}
	if name, key, ok := splitSubscript(ref.FieldPath); ok {
		switch name {
		case "metadata.annotations":
			c.add(validate.QualifiedName(strings.ToLower(key), path)...)
		case "metadata.labels":
			c.add(validate.QualifiedName(key, path)...)
		default:
			c.add(field.Invalid(path.Child("fieldPath"), ref.FieldPath, fmt.Sprintf("error converting fieldPath: field label does not support subscript: %s", ref.FieldPath)))
		}
		return
	}
	name := ref.FieldPath
	if name == "spec.host" { // what spec.nodeName was called before v1
		name = "spec.nodeName"
	}
	if !slices.Contains(knownFieldPaths, name) {
		c.add(field.Invalid(path.Child("fieldPath"), ref.FieldPath, "error converting fieldPath: field label not supported: "+name))
		return
	}
	c.add(notSupportedIn(path.Child("fieldPath"), name, supported...)...)
}

// splitSubscript splits metadata.labels['key'] into its two parts.
func splitSubscript(path string) (name, key string, ok bool) {
	rest, ok := strings.CutSuffix(path, "']")
	if !ok {
		return "", "", false
	}
	name, key, ok = strings.Cut(rest, "['")
	return name, key, ok && name != ""
}

func (c *checker) checkResourceFieldRef(ref *corev1.ResourceFieldSelector, volume bool, path *field.Path) {
	switch {
	case volume && ref.ContainerName == "":
		c.add(field.Required(path.Child("containerName"), ""))
	case ref.Resource == "":
		c.add(field.Required(path.Child("resource"), ""))
	case !isHugePagesField(ref.Resource):
		c.add(notSupportedIn(path.Child("resource"), ref.Resource, resourceFields...)...)
	}
	c.checkDivisor(ref, path.Child("divisor"))
}

func isHugePagesField(resource string) bool {
	return strings.HasPrefix(resource, "requests.hugepages-") || strings.HasPrefix(resource, "limits.hugepages-")
}

var byteDivisors = []string{"1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"}

func (c *checker) checkDivisor(ref *corev1.ResourceFieldSelector, path *field.Path) {
	if ref.Divisor.Cmp(resource.Quantity{}) == 0 {
		return
	}
	_, kind, _ := strings.Cut(ref.Resource, ".")
	supported, what := byteDivisors, kind
	switch {
	case kind == "cpu":
		if divisor := ref.Divisor.String(); divisor != "1" && divisor != "1m" {
			c.add(field.Invalid(path, ref.Resource, "only divisor's values 1m and 1 are supported with the cpu resource"))
		}
		return
	case kind == "ephemeral-storage":
		what = "local ephemeral storage"
	case isHugePagesField(ref.Resource):
		what = "hugepages"
	case kind != "memory":
		return
	}
	if !slices.Contains(supported, ref.Divisor.String()) {
		c.add(field.Invalid(path, ref.Resource, fmt.Sprintf("only divisor's values %s are supported with the %s resource", strings.Join(supported, ", "), what)))
	}
}
