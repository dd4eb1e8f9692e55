package env

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"vigil/informer"
)

// Follow keeps the set as the factory's informer of services has them, and calls Synced after its first list. It returns after
// that, or when ctx ends; the factory does the rest for as long as it runs.
func (s *Services) Follow(ctx context.Context, factory *informer.Factory) error {
	resource := informer.ResourceOf[*corev1.Service]()
	resource.DropManagedFields = true
	services := factory.Informer(resource)
	services.AddHandler(informer.Handler[*corev1.Service]{
		OnAdd:    func(service *corev1.Service, _ bool) { s.Set(service) },
		OnUpdate: func(_, service *corev1.Service) { s.Set(service) },
		OnDelete: func(service *corev1.Service, _ bool) { s.Delete(service.Namespace, service.Name) },
	}.EventHandler())
	if err := services.WaitForSync(ctx); err != nil {
		return err
	}
	s.Synced()
	return nil
}

// Follow lets the services follow the factory's, as Services.Follow does. It does nothing when there are none to be told of.
func (m *Maker) Follow(ctx context.Context, factory *informer.Factory) error {
	if m.Services == nil {
		return nil
	}
	return m.Services.Follow(ctx, factory)
}
