package apiextensions

import (
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
	"vigil/kinds/column"
	"vigil/object"
)

// CustomResourceDefinition is the row of customresourcedefinitions. They are stored as JSON of v1beta1.
func CustomResourceDefinition() *kinds.Kind {
	return &kinds.Kind{
		GVK:        apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
		Resource:   "customresourcedefinitions",
		Singular:   "customresourcedefinition",
		ShortNames: []string{"crd", "crds"},
		Categories: []string{"api-extensions"},
		Path:       "apiextensions.k8s.io/customresourcedefinitions",
		Type: &object.Type{
			APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition",
			New:  func() runtime.Object { return &apiextensionsv1.CustomResourceDefinition{} },
			Form: &object.Form{ToStored: toStored, FromStored: fromStored},
		},
		New:     func() kinds.Object { return &apiextensionsv1.CustomResourceDefinition{} },
		NewList: func() runtime.Object { return &apiextensionsv1.CustomResourceDefinitionList{} },

		Default: func(obj kinds.Object) {
			apiextensionsv1.SetObjectDefaults_CustomResourceDefinition(obj.(*apiextensionsv1.CustomResourceDefinition))
		},
		PrepareCreate: func(obj kinds.Object) {
			crd := obj.(*apiextensionsv1.CustomResourceDefinition)
			crd.Status = apiextensionsv1.CustomResourceDefinitionStatus{}
			noteStorageVersion(crd)
		},
		PrepareUpdate: func(obj, old kinds.Object) {
			crd := obj.(*apiextensionsv1.CustomResourceDefinition)
			crd.Status = *old.(*apiextensionsv1.CustomResourceDefinition).Status.DeepCopy()
			noteStorageVersion(crd)
		},
		HasGeneration: true,
		Validate: func(obj kinds.Object) field.ErrorList {
			return validateDefinition(obj.(*apiextensionsv1.CustomResourceDefinition), nil)
		},
		ValidateUpdate: func(obj, old kinds.Object) field.ErrorList {
			return validateDefinition(obj.(*apiextensionsv1.CustomResourceDefinition), old.(*apiextensionsv1.CustomResourceDefinition))
		},
		Warnings: func(obj, old kinds.Object) []string {
			if old == nil {
				return warnings(obj.(*apiextensionsv1.CustomResourceDefinition), nil)
			}
			return warnings(obj.(*apiextensionsv1.CustomResourceDefinition), old.(*apiextensionsv1.CustomResourceDefinition))
		},

		Columns: []metav1.TableColumnDefinition{
			column.Name(),
			{Name: "Created At", Type: "date", Description: metav1.ObjectMeta{}.SwaggerDoc()["creationTimestamp"]},
		},
		Row: func(obj kinds.Object, _ time.Time) []any {
			return []any{obj.GetName(), obj.GetCreationTimestamp().UTC().Format(time.RFC3339)}
		},

		Subresources: []kinds.Subresource{{
			Name: "status", Verbs: []string{"get", "patch", "update"},
			Prepare: func(obj, old kinds.Object) {
				obj.(*apiextensionsv1.CustomResourceDefinition).Spec = *old.(*apiextensionsv1.CustomResourceDefinition).Spec.DeepCopy()
			},
			Validate: func(obj, old kinds.Object) field.ErrorList {
				return validateStatus(obj.(*apiextensionsv1.CustomResourceDefinition), old.(*apiextensionsv1.CustomResourceDefinition))
			},
		}},
	}
}

// noteStorageVersion adds the version in which objects are stored from now on to those in which there may be some.
func noteStorageVersion(crd *apiextensionsv1.CustomResourceDefinition) {
	for _, v := range crd.Spec.Versions {
		if !v.Storage {
			continue
		}
		for _, stored := range crd.Status.StoredVersions {
			if stored == v.Name {
				return
			}
		}
		crd.Status.StoredVersions = append(crd.Status.StoredVersions, v.Name)
		return
	}
}
