package apps

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
)

func validateDeployment(obj kinds.Object) field.ErrorList                  { return nil }
func validateDeploymentUpdate(obj, old kinds.Object) field.ErrorList       { return nil }
func validateDeploymentStatusUpdate(obj, old kinds.Object) field.ErrorList { return nil }
func deploymentWarnings(obj, old kinds.Object) []string                    { return nil }
