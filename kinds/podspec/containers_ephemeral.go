package podspec

import (
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const textNotEphemeral = "cannot be set for an Ephemeral Container"

// ephemeralFields are the fields that an ephemeral container may set. Everything that a service would rely on (ports,
// probes, resources ...) is left out, and so is whatever is added to containers later until it has been considered.
var ephemeralFields = sets.New("Name", "Image", "Command", "Args", "WorkingDir", "EnvFrom", "Env", "VolumeMounts", "VolumeDevices",
	"TerminationMessagePath", "TerminationMessagePolicy", "ImagePullPolicy", "SecurityContext", "Stdin", "StdinOnce", "TTY")

func (c *checker) checkEphemeralContainers(path *field.Path) {
	others := sets.New[string]()
	for _, container := range c.spec.Containers {
		others.Insert(container.Name)
	}
	for _, container := range c.spec.InitContainers {
		others.Insert(container.Name)
	}
	names := others.Clone()
	for i := range c.spec.EphemeralContainers {
		e, at := &c.spec.EphemeralContainers[i], path.Index(i)
		container := corev1.Container(e.EphemeralContainerCommon)
		c.checkContainer(&container, at)
		c.checkImageSpace(container.Image, at.Child("image"))
		if names.Has(e.Name) {
			c.add(field.Duplicate(at.Child("name"), e.Name))
		}
		names.Insert(e.Name)
		if e.TargetContainerName != "" && !others.Has(e.TargetContainerName) {
			c.add(field.NotFound(at.Child("targetContainerName"), e.TargetContainerName))
		}
		c.add(onlyFields(e.EphemeralContainerCommon, ephemeralFields, textNotEphemeral, at)...)
		// Sub-paths are bind mounts that nobody cleans up before the pod ends.
		for j, mount := range e.VolumeMounts {
			if mount.SubPath != "" {
				c.add(field.Forbidden(at.Child("volumeMounts").Index(j).Child("subPath"), textNotEphemeral))
			}
			if mount.SubPathExpr != "" {
				c.add(field.Forbidden(at.Child("volumeMounts").Index(j).Child("subPathExpr"), textNotEphemeral))
			}
		}
	}
}

// onlyFields forbids the fields of a struct that are set and not allowed.
func onlyFields(object any, allowed sets.Set[string], text string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	v := reflect.ValueOf(object)
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		if allowed.Has(name) || v.Field(i).IsZero() || isEmptyRequirements(v.Field(i)) {
			continue
		}
		errs = append(errs, field.Forbidden(path.Child(lowerFirst(name)), text))
	}
	return errs
}

// isEmptyRequirements sees through empty maps, which decoders may leave where nothing was given.
func isEmptyRequirements(v reflect.Value) bool {
	r, ok := v.Interface().(corev1.ResourceRequirements)
	return ok && len(r.Limits) == 0 && len(r.Requests) == 0 && len(r.Claims) == 0
}

func lowerFirst(name string) string {
	if strings.ToUpper(name) == name {
		return strings.ToLower(name)
	}
	r, n := utf8.DecodeRuneInString(name)
	return string(unicode.ToLower(r)) + name[n:]
}
