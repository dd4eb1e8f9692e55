package write

import "vigil/kinds"

// warnings collects texts for Warning headers, each once, in the order of their coming.
type warnings struct {
	texts []string
	seen  map[string]bool
}

func (w *warnings) add(texts ...string) {
	for _, text := range texts {
		if text == "" || w.seen[text] {
			continue
		}
		if w.seen == nil {
			w.seen = map[string]bool{}
		}
		w.seen[text] = true
		w.texts = append(w.texts, text)
	}
}

func (w *warnings) addOne(text string) { w.add(text) }

func (w *warnings) addFor(k *kinds.Kind, obj, old kinds.Object) {
	if k.Warnings != nil {
		w.add(k.Warnings(obj, old)...)
	}
}
