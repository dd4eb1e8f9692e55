package core

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds"
)

func validateNode(obj kinds.Object) field.ErrorList                  { return nil }
func validateNodeUpdate(obj, old kinds.Object) field.ErrorList       { return nil }
func validateNodeStatusUpdate(obj, old kinds.Object) field.ErrorList { return nil }
func nodeWarnings(obj, old kinds.Object) []string                    { return nil }
