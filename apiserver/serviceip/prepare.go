package serviceip

import (
	"context"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// undoTimeout bounds what is done after the request: its own context may have ended.
const undoTimeout = 10 * time.Second

// Prepare fills in clusterIP, clusterIPs, ipFamilies, ipFamilyPolicy, node ports and healthCheckNodePort of obj and
// takes them. old is the stored service, nil for a create. obj has been defaulted and has passed the prepare hook of
// its kind, but not validation, which comes after; where obj asks for what does not fit together, Prepare says so
// itself or leaves it to validation. The error is an APIStatus.
//
// One of the two functions must be called later: commit when obj was stored, which gives back what old had and obj
// has not; rollback when it was not, which gives back what was taken. A caller that does not know (store.ErrUncertain)
// calls neither, and repair finds out.
func (a *Allocator) Prepare(ctx context.Context, obj, old *corev1.Service) (commit, rollback func(), err error) {
	t := &transaction{a: a, ctx: ctx, svc: obj}
	if err := t.prepare(old); err != nil {
		t.rollback()
		return nil, nil, err
	}
	return t.commit, t.rollback, nil
}

// Released gives back everything that a service had that has been deleted. svc carries the resourceVersion it had, or
// that of its deletion.
func (a *Allocator) Released(ctx context.Context, svc *corev1.Service) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTimeout)
	defer cancel()
	for _, ip := range addressesOf(svc) {
		a.giveAddress(ctx, ip, svc)
	}
	ports := nodePorts(svc)
	if svc.Spec.HealthCheckNodePort != 0 {
		ports = append(ports, svc.Spec.HealthCheckNodePort)
	}
	a.givePorts(ctx, ports, svc)
}

// transaction is what one write takes and will give back.
type transaction struct {
	a   *Allocator
	ctx context.Context // of the request
	svc *corev1.Service
	old *corev1.Service // nil for a create

	takenIPs   map[netip.Addr]int64 // with the revisions of their IPAddresses
	takenPorts []int32
	dropIPs    []netip.Addr // given back by commit
	dropPorts  []int32
}

func (t *transaction) prepare(old *corev1.Service) error {
	t.old = old
	if err := t.a.chooseFamilies(t.svc, old); err != nil {
		return err
	}
	if err := t.clusterIPs(); err != nil {
		return err
	}
	return t.nodePorts()
}

func (t *transaction) commit() {
	if len(t.dropIPs)+len(t.dropPorts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), undoTimeout)
	defer cancel()
	for _, ip := range t.dropIPs {
		t.a.giveAddress(ctx, ip, t.old)
	}
	t.a.givePorts(ctx, t.dropPorts, t.old)
}

func (t *transaction) rollback() {
	if len(t.takenIPs)+len(t.takenPorts) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), undoTimeout)
	defer cancel()
	for ip, rev := range t.takenIPs {
		if err := t.a.ips.give(ctx, ip, rev); err != nil {
			t.a.log.Warn("the API server could not give back a cluster IP; the next repair frees it", "ip", ip, "service", keyOf(t.svc), "error", err)
		}
	}
	t.a.givePorts(ctx, t.takenPorts, t.svc)
	t.takenIPs, t.takenPorts = nil, nil
}

func (a *Allocator) givePorts(ctx context.Context, ports []int32, svc *corev1.Service) {
	if err := a.ports.give(ctx, ports); err != nil {
		a.log.Warn("the API server could not give back node ports; the next repair frees them", "ports", ports, "service", keyOf(svc), "error", err)
	}
}

// giveAddress gives back an address that svc had when it was stored. Between then and now repair may have freed the
// address and a new service, maybe of the same name, may have taken it; its IPAddress is newer than svc and must stay.
func (a *Allocator) giveAddress(ctx context.Context, ip netip.Addr, svc *corev1.Service) {
	log := a.log.With("ip", ip, "service", keyOf(svc))
	stored, err := a.ips.get(ctx, ip)
	switch {
	case err != nil:
		log.Warn("the API server could not give back a cluster IP; the next repair frees it", "error", err)
	case stored == nil || !stored.isOf(svc.Namespace, svc.Name):
		// Somebody was faster.
	case stored.rev >= revisionOf(svc):
		log.Info("the API server does not give back a cluster IP that was taken after the service was stored; a repair frees it when no service has it")
	default:
		if err := a.ips.give(ctx, ip, stored.rev); err != nil {
			log.Warn("the API server could not give back a cluster IP; the next repair frees it", "error", err)
		}
	}
}

func (t *transaction) invalid(errs ...*field.Error) error {
	return apierrors.NewInvalid(corev1.SchemeGroupVersion.WithKind("Service").GroupKind(), t.svc.Name, errs)
}
