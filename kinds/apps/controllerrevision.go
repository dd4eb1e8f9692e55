package apps

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/kinds/validate"
	"vigil/object"
)

// ControllerRevision is the row of controller revisions, in which stateful sets and daemon sets keep what their template
// was before. A revision has no spec: its data never changes, its number may.
func ControllerRevision() *kinds.Kind {
	return &kinds.Kind{
		GVK:        appsv1.SchemeGroupVersion.WithKind("ControllerRevision"),
		Resource:   "controllerrevisions",
		Singular:   "controllerrevision",
		Namespaced: true,
		Path:       "controllerrevisions",
		Type: &object.Type{
			APIVersion: "apps/v1", Kind: "ControllerRevision", Namespaced: true,
			New: func() runtime.Object { return &appsv1.ControllerRevision{} },
		},

		New:     func() kinds.Object { return &appsv1.ControllerRevision{} },
		NewList: func() runtime.Object { return &appsv1.ControllerRevisionList{} },

		PrepareUpdate:  keepEqualData,
		Validate:       validateControllerRevision,
		ValidateUpdate: validateControllerRevisionUpdate,

		UnconditionalUpdate: true,

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			column.Text("Controller", "Controller of the object"),
			column.Integer("Revision", appsv1.ControllerRevision{}.SwaggerDoc()["revision"]),
			column.Age(),
		},
		Row: controllerRevisionRow,
	}
}

func validateControllerRevision(obj kinds.Object) field.ErrorList {
	revision := obj.(*appsv1.ControllerRevision)
	var errs field.ErrorList
	if revision.Data.Raw == nil && revision.Data.Object == nil {
		errs = append(errs, field.Required(field.NewPath("data"), "data is mandatory"))
	}
	return append(errs, validate.NonNegative(revision.Revision, field.NewPath("revision"))...)
}

// keepEqualData leaves data as they are that say the same in other bytes: with other spaces, or in another order. They never change, but a client that sends what it has
// read has not changed them: JSON comes to it without spaces, and a patch or an apply writes it anew.
func keepEqualData(obj, old kinds.Object) {
	revision, was := obj.(*appsv1.ControllerRevision), old.(*appsv1.ControllerRevision)
	if bytes.Equal(revision.Data.Raw, was.Data.Raw) {
		return
	}
	var now, before any
	if json.Unmarshal(revision.Data.Raw, &now) == nil && json.Unmarshal(was.Data.Raw, &before) == nil && equalJSON(now, before) {
		revision.Data = *was.Data.DeepCopy()
	}
}

// equalJSON compares decoded JSON, 1 and 1.0 as equal.
func equalJSON(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, equalJSON)
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, equalJSON)
	case int64:
		if f, ok := b.(float64); ok {
			return float64(a) == f && int64(f) == a
		}
	case float64:
		if i, ok := b.(int64); ok {
			return equalJSON(i, a)
		}
	}
	return a == b
}

func validateControllerRevisionUpdate(obj, old kinds.Object) field.ErrorList {
	errs := validateControllerRevision(obj)
	return append(errs, validate.Immutable(obj.(*appsv1.ControllerRevision).Data, old.(*appsv1.ControllerRevision).Data, field.NewPath("data"))...)
}

func controllerRevisionRow(obj kinds.Object, now time.Time) []any {
	revision := obj.(*appsv1.ControllerRevision)
	controller := column.None
	if ref := metav1.GetControllerOf(revision); ref != nil {
		controller = ownerText(ref)
	}
	return []any{revision.Name, controller, revision.Revision, column.Since(revision.CreationTimestamp, now)}
}

// ownerText is an owner as kubectl names it: statefulset.apps/web.
func ownerText(ref *metav1.OwnerReference) string {
	kind := strings.ToLower(ref.Kind)
	if gv, err := schema.ParseGroupVersion(ref.APIVersion); err == nil && gv.Group != "" {
		kind += "." + gv.Group
	}
	return kind + "/" + ref.Name
}
