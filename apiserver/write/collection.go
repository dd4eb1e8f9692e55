package write

import (
	"context"
	"net/http"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/respond"
	"vigil/internal/panics"
)

// collectionWorkers is how many objects of a deletecollection are deleted at once: enough to share etcd's commits, few
// enough to leave room for others.
const collectionWorkers = 8

// DeleteCollection deletes the objects that a list with the same query would show, each as [Writer.Delete] would (200).
// It is not atomic: when one cannot be deleted, others may be gone. It answers with the objects that it set out to
// delete.
func (w *Writer) DeleteCollection(ctx context.Context, r *Request) (*Result, error) {
	if r.Kind.NoDeleteCollection {
		return nil, respond.NoMethod()
	}
	o, err := w.begin(r, "deletecollection")
	if err != nil {
		return nil, err
	}
	opts, err := deleteOptions(r)
	if err != nil {
		return nil, err
	}
	if err := noCollectionOfCorrupt(opts); err != nil {
		return nil, err
	}
	o.warnOfDependents(opts)
	list, err := o.res.List(ctx, r)
	if err != nil {
		return nil, toStatus(err, o.gr(), "", "list")
	}
	g, each := errgroup.WithContext(ctx)
	g.SetLimit(collectionWorkers)
	for _, v := range list.Items {
		g.Go(func() error {
			return panics.Try(w.logger, panics.Request, func() error {
				one := *o
				one.verb = "delete"
				one.opts.dryRun = len(opts.DryRun) > 0
				one.r = &Request{Kind: r.Kind, Resource: r.Resource, Namespace: v.Namespace(), Name: v.Name(), User: r.User, UserAgent: r.UserAgent}
				_, _, err := one.remove(each, opts)
				if apierrors.IsNotFound(err) {
					return nil // somebody else was faster
				}
				return err
			}, "resource", o.gr().String(), "namespace", v.Namespace(), "name", v.Name())
		})
	}
	if err := g.Wait(); err != nil {
		return nil, err
	}
	return &Result{Code: http.StatusOK, List: list, Warnings: o.warn.texts}, nil
}
