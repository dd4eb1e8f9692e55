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
		var err error
		if sel.Fields, err = storedFields(k, sel.Fields); err != nil {
			return sel, err
		}
	}
	if k.View != nil {
		sel.As = k.Type
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

// storedFields is a selector in the labels of what is stored. The error is a 400 for a label that the kind does not have.
func storedFields(k *kinds.Kind, selector fields.Selector) (fields.Selector, error) {
	for _, r := range selector.Requirements() {
		if _, ok := k.StoredField(r.Field); !ok {
			return nil, apierrors.NewBadRequest(k.FieldError(r.Field).Error())
		}
	}
	if k.View == nil {
		return selector, nil
	}
	renamed, err := selector.Transform(func(label, value string) (string, string, error) {
		stored, _ := k.StoredField(label)
		return stored, value, nil
	})
	if err != nil {
		return nil, fmt.Errorf("select %s: %w", k.GroupResource(), err)
	}
	return renamed, nil
}
