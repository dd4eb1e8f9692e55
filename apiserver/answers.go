package apiserver

import (
	"context"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/negotiate"
	"vigil/apiserver/read"
	"vigil/apiserver/request"
	"vigil/apiserver/respond"
	"vigil/kinds"
	"vigil/object"
)

// Answer makes the objects of a kind that can be read and is stored nowhere: at least those of a namespace, and with a name ("": all).
// They are its caller's.
type Answer func(ctx context.Context, namespace, name string) []kinds.Object

// serveAnswer reads objects that are made for the request.
func (c *call) serveAnswer(rt *route, opts *request.ListOptions) error {
	form, err := read.Accept(c.req, read.Endpoint(rt.Kind))
	if err != nil {
		return err
	}
	if c.info.Verb == "list" {
		if _, err := read.Selection(rt.Kind, &c.info, opts); err != nil {
			return err
		}
	}
	var made []kinds.Object
	if answer := c.server.answers[rt.Kind.GVK]; answer != nil {
		made = answer(c.ctx, c.info.Namespace, c.info.Name)
	}
	var objects []runtime.Object
	var versions []*object.Version
	for _, obj := range made {
		if c.info.Name != "" && obj.GetName() != c.info.Name || c.info.Namespace != "" && obj.GetNamespace() != c.info.Namespace || !selected(obj, opts) {
			continue
		}
		key := rt.Prefix + obj.GetName()
		if rt.Kind.Namespaced {
			key = rt.Prefix + obj.GetNamespace() + "/" + obj.GetName()
		}
		v, err := object.FromObject(rt.Kind.Type, key, 0, obj)
		if err != nil {
			return fmt.Errorf("answer for %s: %w", obj.GetName(), err)
		}
		obj.GetObjectKind().SetGroupVersionKind(rt.Kind.GVK)
		objects, versions = append(objects, obj), append(versions, v)
	}
	switch {
	case c.info.Verb == "get" && len(objects) == 0:
		return apierrors.NewNotFound(rt.Kind.GroupResource(), c.info.Name)
	case c.info.Verb == "get" && form.View == negotiate.AsIs:
		return respond.Object(&c.rec, c.req, http.StatusOK, form, objects[0])
	case c.info.Verb == "get":
		return read.WriteObject(&c.rec, c.req, http.StatusOK, form, rt.Kind, versions[0])
	case form.View != negotiate.AsIs:
		return read.WriteList(&c.rec, c.req, http.StatusOK, form, &rt.Resource, versions, object.ListMeta{})
	}
	list := rt.Kind.NewList()
	for _, obj := range objects { // as in any list, items do not say what they are
		obj.GetObjectKind().SetGroupVersionKind(schema.GroupVersionKind{})
	}
	if err := meta.SetList(list, objects); err != nil {
		return fmt.Errorf("list %s: %w", rt.Kind.Resource, err)
	}
	list.GetObjectKind().SetGroupVersionKind(rt.Kind.GVK.GroupVersion().WithKind(rt.Kind.GVK.Kind + "List"))
	return respond.Object(&c.rec, c.req, http.StatusOK, form, list)
}

func selected(obj kinds.Object, opts *request.ListOptions) bool {
	if opts.LabelSelector != nil && !opts.LabelSelector.Matches(labels.Set(obj.GetLabels())) {
		return false
	}
	return opts.FieldSelector == nil || opts.FieldSelector.Matches(fields.Set{"metadata.name": obj.GetName(), "metadata.namespace": obj.GetNamespace()})
}
