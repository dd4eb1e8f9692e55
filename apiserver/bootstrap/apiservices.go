package bootstrap

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// priorities are upstream's (controlplane/apiserver's default API service priorities): of the group, and of the version in it. Clients see them only.
var priorities = map[schema.GroupVersion][2]int32{
	{Group: "", Version: "v1"}:                             {18000, 1},
	{Group: "apps", Version: "v1"}:                         {17800, 15},
	{Group: "events.k8s.io", Version: "v1"}:                {17750, 15},
	{Group: "authentication.k8s.io", Version: "v1"}:        {17700, 15},
	{Group: "authorization.k8s.io", Version: "v1"}:         {17600, 15},
	{Group: "autoscaling", Version: "v1"}:                  {17500, 15},
	{Group: "autoscaling", Version: "v2"}:                  {17500, 30},
	{Group: "batch", Version: "v1"}:                        {17400, 15},
	{Group: "certificates.k8s.io", Version: "v1"}:          {17300, 15},
	{Group: "networking.k8s.io", Version: "v1"}:            {17200, 15},
	{Group: "policy", Version: "v1"}:                       {17100, 15},
	{Group: "rbac.authorization.k8s.io", Version: "v1"}:    {17000, 15},
	{Group: "storage.k8s.io", Version: "v1"}:               {16800, 15},
	{Group: "apiextensions.k8s.io", Version: "v1"}:         {16700, 15},
	{Group: "admissionregistration.k8s.io", Version: "v1"}: {16700, 15},
	{Group: "scheduling.k8s.io", Version: "v1"}:            {16600, 15},
	{Group: "coordination.k8s.io", Version: "v1"}:          {16500, 15},
	{Group: "node.k8s.io", Version: "v1"}:                  {16300, 15},
	{Group: "discovery.k8s.io", Version: "v1"}:             {16200, 15},
	{Group: "flowcontrol.apiserver.k8s.io", Version: "v1"}: {16100, 21},
	{Group: "resource.k8s.io", Version: "v1"}:              {15900, 20},
	{Group: "storagemigration.k8s.io", Version: "v1"}:      {15800, 15},
}

// automanaged marks the APIServices that a server keeps for what it serves itself.
const automanaged = "kube-aggregator.kubernetes.io/automanaged"

// ensureAPIServices makes an APIService without a service behind it for each group and version that is served at the moment; all but that of the
// group of APIServices itself. It removes those that it has seen served before and that are served no more.
func (b *Bootstrap) ensureAPIServices(ctx context.Context) error {
	if b.config.Kinds().ByResource(apiServices) == nil {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(8)
	done := map[schema.GroupVersion]bool{}
	for _, k := range b.config.Kinds().All() {
		gv := k.GVK.GroupVersion()
		if done[gv] || gv.Group == apiServices.Group {
			continue
		}
		done[gv] = true
		priority, ok := priorities[gv]
		if !ok {
			priority = [2]int32{15000, 9}
		}
		service := &apiregistrationv1.APIService{
			TypeMeta:   metav1.TypeMeta{APIVersion: apiregistrationv1.SchemeGroupVersion.String(), Kind: "APIService"},
			ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group, Labels: map[string]string{automanaged: "onstart"}},
			Spec:       apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: priority[0], VersionPriority: priority[1]},
		}
		group.Go(func() error { return b.create(ctx, apiServices, "", service.Name, service) })
	}
	for gv := range b.registered {
		if !done[gv] {
			group.Go(func() error { return b.removeAPIService(ctx, gv.Version+"."+gv.Group) })
		}
	}
	err := group.Wait()
	if err == nil {
		b.registered = done
	}
	return err
}

// removeAPIService removes an APIService, unless somebody has made it another.
func (b *Bootstrap) removeAPIService(ctx context.Context, name string) error {
	have, err := b.newest(apiServices, "", name)
	if err != nil || have == nil {
		return err
	}
	service := have.(*apiregistrationv1.APIService)
	if service.Labels[automanaged] == "" || service.Spec.Service != nil {
		return nil
	}
	request, err := b.request(apiServices, "", name, &metav1.DeleteOptions{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "DeleteOptions"}, Preconditions: metav1.NewUIDPreconditions(string(service.UID)),
	})
	if err != nil {
		return err
	}
	if _, err := b.config.Writer.Delete(ctx, request); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete the APIService %s: %w", name, err)
	}
	return nil
}
