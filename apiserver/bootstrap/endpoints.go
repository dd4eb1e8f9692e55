package bootstrap

import (
	"context"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ensureEndpoints says that this server lives, and makes the endpoints of the Service name the servers that do.
func (b *Bootstrap) ensureEndpoints(ctx context.Context) error {
	if err := b.renew(ctx); err != nil {
		return err
	}
	return b.publish(ctx)
}

// publish makes Endpoints and EndpointSlice name the servers that live.
func (b *Bootstrap) publish(ctx context.Context) error {
	servers, err := b.living(ctx)
	if err != nil || len(servers) == 0 { // endpoints without a server would help nobody
		return err
	}
	if err := b.publishEndpoints(ctx, servers); err != nil {
		return err
	}
	return b.publishSlice(ctx, servers)
}

func (b *Bootstrap) publishEndpoints(ctx context.Context, servers []netip.Addr) error {
	want := &corev1.Endpoints{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		ObjectMeta: metav1.ObjectMeta{
			Name: serviceName, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{discoveryv1.LabelSkipMirror: "true"},
		},
		Subsets: []corev1.EndpointSubset{{
			Ports: []corev1.EndpointPort{{Name: "https", Port: b.config.Port, Protocol: corev1.ProtocolTCP}},
		}},
	}
	for _, server := range servers {
		want.Subsets[0].Addresses = append(want.Subsets[0].Addresses, corev1.EndpointAddress{IP: server.String()})
	}
	have, err := b.newest(endpoints, metav1.NamespaceDefault, serviceName)
	if err != nil {
		return err
	}
	current, ok := have.(*corev1.Endpoints)
	switch {
	case !ok:
		return b.create(ctx, endpoints, metav1.NamespaceDefault, serviceName, want)
	case equality.Semantic.DeepEqual(current.Subsets, want.Subsets):
		return nil
	}
	return b.update(ctx, endpoints, metav1.NamespaceDefault, serviceName, "", want)
}

func (b *Bootstrap) publishSlice(ctx context.Context, servers []netip.Addr) error {
	name, port, protocol, ready := "https", b.config.Port, corev1.ProtocolTCP, true
	want := &discoveryv1.EndpointSlice{
		TypeMeta: metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta: metav1.ObjectMeta{
			Name: serviceName, Namespace: metav1.NamespaceDefault,
			Labels: map[string]string{discoveryv1.LabelServiceName: serviceName},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}},
	}
	if servers[0].Is6() {
		want.AddressType = discoveryv1.AddressTypeIPv6
	}
	for _, server := range servers {
		if server.Is4() == servers[0].Is4() {
			want.Endpoints = append(want.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{server.String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready},
			})
		}
	}
	have, err := b.newest(endpointSlices, metav1.NamespaceDefault, serviceName)
	if err != nil {
		return err
	}
	current, ok := have.(*discoveryv1.EndpointSlice)
	if !ok {
		return b.create(ctx, endpointSlices, metav1.NamespaceDefault, serviceName, want)
	}
	same := func(x, y discoveryv1.Endpoint) bool { return slices.Equal(x.Addresses, y.Addresses) }
	if slices.EqualFunc(current.Endpoints, want.Endpoints, same) && equality.Semantic.DeepEqual(current.Ports, want.Ports) {
		return nil
	}
	return b.update(ctx, endpointSlices, metav1.NamespaceDefault, serviceName, "", want)
}
