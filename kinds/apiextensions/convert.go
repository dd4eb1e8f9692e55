package apiextensions

import (
	"fmt"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensionsv1beta1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
)

// internal converts a definition to the version in which it is checked. The result shares nothing with crd.
func internal(crd *apiextensionsv1.CustomResourceDefinition) (*apiextensions.CustomResourceDefinition, error) {
	out := &apiextensions.CustomResourceDefinition{}
	if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(crd.DeepCopy(), out, nil); err != nil {
		return nil, fmt.Errorf("convert custom resource definition: %w", err)
	}
	return out, nil
}

// toStored converts to v1beta1, in which upstream goes on storing definitions.
func toStored(obj runtime.Object) (runtime.Object, error) {
	middle, err := internal(obj.(*apiextensionsv1.CustomResourceDefinition))
	if err != nil {
		return nil, err
	}
	out := &apiextensionsv1beta1.CustomResourceDefinition{}
	if err := apiextensionsv1beta1.Convert_apiextensions_CustomResourceDefinition_To_v1beta1_CustomResourceDefinition(middle, out, nil); err != nil {
		return nil, fmt.Errorf("convert custom resource definition to v1beta1: %w", err)
	}
	out.SetGroupVersionKind(apiextensionsv1beta1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return out, nil
}

// fromStored reads v1beta1 and v1.
func fromStored(stored []byte) (runtime.Object, error) {
	var is metav1.TypeMeta
	if err := json.Unmarshal(stored, &is); err != nil {
		return nil, err
	}
	out := &apiextensionsv1.CustomResourceDefinition{}
	switch {
	case is.Kind != "CustomResourceDefinition":
		return nil, fmt.Errorf("a %s where a CustomResourceDefinition belongs", is.Kind)
	case is.APIVersion == apiextensionsv1.SchemeGroupVersion.String():
		return out, json.Unmarshal(stored, out)
	case is.APIVersion != apiextensionsv1beta1.SchemeGroupVersion.String():
		return nil, fmt.Errorf("unknown version %s of a CustomResourceDefinition", is.APIVersion)
	}
	old, middle := &apiextensionsv1beta1.CustomResourceDefinition{}, &apiextensions.CustomResourceDefinition{}
	if err := json.Unmarshal(stored, old); err != nil {
		return nil, err
	}
	apiextensionsv1beta1.SetObjectDefaults_CustomResourceDefinition(old)
	if err := apiextensionsv1beta1.Convert_v1beta1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(old, middle, nil); err != nil {
		return nil, fmt.Errorf("convert custom resource definition from v1beta1: %w", err)
	}
	if err := apiextensionsv1.Convert_apiextensions_CustomResourceDefinition_To_v1_CustomResourceDefinition(middle, out, nil); err != nil {
		return nil, fmt.Errorf("convert custom resource definition to v1: %w", err)
	}
	out.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
	return out, nil
}
