package apps

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
)

func validateReplicaSet(obj kinds.Object) field.ErrorList                  { return nil }
func validateReplicaSetUpdate(obj, old kinds.Object) field.ErrorList       { return nil }
func validateReplicaSetStatusUpdate(obj, old kinds.Object) field.ErrorList { return nil }
func replicaSetWarnings(obj, old kinds.Object) []string                    { return nil }
