package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
)

// RewriteConfig says which objects are to be encrypted anew.
type RewriteConfig struct {
	Kubeconfig string
	Resources  []string  // as kubectl names them: "secrets", "deployments.apps"
	Out        io.Writer // a line for each resource
}

// rewriteWorkers bounds the requests under way of a rewrite, so that it does not hold up anybody.
const rewriteWorkers = 8

// Rewrite has the API server store every object of some resources again that is encrypted with another key than the newest, or
// not at all. It sends patches that change nothing: contents are neither read nor sent, and an object that is encrypted
// with the newest key is left alone.
func Rewrite(ctx context.Context, config RewriteConfig) error {
	rest, err := clientcmd.BuildConfigFromFlags("", config.Kubeconfig)
	if err != nil {
		return fmt.Errorf("rewrite: %w", err)
	}
	rest.QPS = -1 // the server says when it is too much
	client, err := metadata.NewForConfig(rest)
	if err != nil {
		return fmt.Errorf("rewrite: %w", err)
	}
	info, err := discovery.NewDiscoveryClientForConfig(rest)
	if err != nil {
		return fmt.Errorf("rewrite: %w", err)
	}
	groups, err := restmapper.GetAPIGroupResources(info)
	if err != nil {
		return fmt.Errorf("rewrite: ask which resources there are: %w", err)
	}
	mapper := restmapper.NewDiscoveryRESTMapper(groups)
	for _, name := range config.Resources {
		gvr, err := mapper.ResourceFor(schema.ParseGroupResource(name).WithVersion(""))
		if err != nil {
			return fmt.Errorf("rewrite %s: %w", name, err)
		}
		total, written, err := rewriteAll(ctx, client.Resource(gvr))
		fmt.Fprintf(config.Out, "%s: %d of %d objects rewritten\n", strings.ToLower(name), written, total)
		if err != nil {
			return fmt.Errorf("rewrite %s: %w", name, err)
		}
	}
	return nil
}

// rewriteAll goes through all objects of a resource, page by page.
func rewriteAll(ctx context.Context, client metadata.Getter) (total, written int64, err error) {
	var done atomic.Int64
	var failed []error
	options := metav1.ListOptions{Limit: 500}
	for {
		page, err := client.List(ctx, options)
		if err != nil {
			return total, done.Load(), errors.Join(append(failed, err)...)
		}
		var group errgroup.Group
		group.SetLimit(rewriteWorkers)
		for i := range page.Items {
			group.Go(func() error {
				changed, err := rewriteOne(ctx, client, &page.Items[i])
				if changed {
					done.Add(1)
				}
				return err
			})
		}
		if err := group.Wait(); err != nil {
			failed = append(failed, err)
		}
		total += int64(len(page.Items))
		if options.Continue = page.Continue; options.Continue == "" {
			return total, done.Load(), errors.Join(failed...)
		}
	}
}

// rewriteOne sends a patch that changes nothing, and says whether the server stored the object because of it.
func rewriteOne(ctx context.Context, client metadata.Getter, object *metav1.PartialObjectMetadata) (changed bool, err error) {
	var of metadata.ResourceInterface = client
	if object.Namespace != "" {
		of = client.Namespace(object.Namespace)
	}
	now, err := of.Patch(ctx, object.Name, types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return now.ResourceVersion != object.ResourceVersion, nil
}
