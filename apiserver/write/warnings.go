package write

import (
	"slices"

	"vigil/kinds"
)

// warnings collects texts for Warning headers, each once, in the order of their coming.
type warnings []string

func (w *warnings) add(texts ...string) {
	for _, text := range texts {
		if text != "" && !slices.Contains(*w, text) {
			*w = append(*w, text)
		}
	}
}

func (w *warnings) addOne(text string) { w.add(text) }

func (w *warnings) addFor(k *kinds.Kind, obj, old kinds.Object) {
	if k.Warnings != nil {
		w.add(k.Warnings(obj, old)...)
	}
}
