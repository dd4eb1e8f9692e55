package read

import (
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"

	"vigil/apiserver/request"
	"vigil/kinds"
	"vigil/watchcache"
)

// Selection says which objects of a kind a request is about. The error is a 400: a field label that the kind does not have,
// or a selector that contradicts the name in the path.
func Selection(k *kinds.Kind, info *request.Info, opts *request.ListOptions) (watchcache.Selection, error) {
	sel := watchcache.Selection{Labels: opts.LabelSelector, Fields: opts.FieldSelector}
	if k.Namespaced {
		sel.Namespace = info.Namespace
	}
	if sel.Fields != nil {
		for _, r := range sel.Fields.Requirements() {
			if !selectable(k, r.Field) {
				return sel, apierrors.NewBadRequest(fmt.Sprintf("field label not supported: %s", r.Field))
			}
		}
	}
	if info.Name == "" {
		return sel, nil
	}
	if sel.Fields == nil {
		sel.Fields = fields.OneTermEqualSelector("metadata.name", info.Name)
	} else if name, ok := sel.Fields.RequiresExactMatch("metadata.name"); !ok || name != info.Name {
		return sel, apierrors.NewBadRequest("fieldSelector metadata.name doesn't match requested name")
	}
	sel.Name = info.Name
	return sel, nil
}

// selectable says whether clients may select objects of a kind by a field.
func selectable(k *kinds.Kind, label string) bool {
	if label == "metadata.name" || label == "metadata.namespace" {
		return true
	}
	for i := range k.Type.Fields {
		if k.Type.Fields[i].Label == label {
			return true
		}
	}
	return false
}
