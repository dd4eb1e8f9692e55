package resourcequota

import (
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/informer"
)

type object = runtime.Object

// eachOf calls its function with all objects of a namespace.
func eachOf[T runtime.Object](lister informer.Lister[T], namespace string) func(func(object) error) error {
	return func(fn func(object) error) error {
		list, err := lister.List(namespace, nil)
		if err != nil {
			return err
		}
		for _, obj := range list {
			if err := fn(obj); err != nil {
				return err
			}
		}
		return nil
	}
}
