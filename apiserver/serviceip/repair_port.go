package serviceip

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"sync"

	corev1 "k8s.io/api/core/v1"

	"vigil/store"
)

// leakRounds is in how many repairs in a row a port must be taken without a service before it is freed. A bit does
// not say when it was set, so this, and not an age, tells the leaked from those whose service is about to be written.
const leakRounds = 3

// leakCounts counts for each leaked port in how many repairs in a row it was.
type leakCounts struct {
	mu     sync.Mutex
	rounds map[int32]int
}

// repairPorts rebuilds the bitmap from the services. The bitmap is read first and swapped on condition that it did not
// change, so what is found missing really is.
func (a *Allocator) repairPorts(ctx context.Context) error {
	a.leaks.mu.Lock()
	defer a.leaks.mu.Unlock()
	for range casTries {
		bits, rev, err := a.ports.read(ctx)
		if err != nil {
			return err
		}
		services, err := a.services(ctx)
		if err != nil {
			return err
		}
		plan := a.planPorts(bits, services)
		if plan.bits.Cmp(bits) != 0 || rev == 0 {
			err := a.ports.write(ctx, plan.bits, rev)
			if errors.Is(err, store.ErrConflict) {
				continue
			}
			if err != nil {
				return fmt.Errorf("repair node port allocations: %w", err)
			}
		}
		a.leaks.rounds = plan.leaks
		for _, r := range plan.reports {
			a.report(r.svc, r.reason, r.note)
		}
		if len(plan.freed) > 0 {
			a.log.Warn("the API server freed node ports that no service has", "ports", plan.freed)
		}
		return nil
	}
	return fmt.Errorf("repair node port allocations: %w", errTooManyRetries)
}

// portPlan is what a repair of the ports comes to.
type portPlan struct {
	bits    *big.Int
	leaks   map[int32]int // next round's counts
	freed   []int32
	reports []portReport
}

type portReport struct {
	svc          *corev1.Service
	reason, note string
}

func (a *Allocator) planPorts(taken *big.Int, services []*corev1.Service) portPlan {
	pool := a.ports
	plan := portPlan{bits: new(big.Int), leaks: map[int32]int{}}
	for _, svc := range services {
		report := func(reason, format string, args ...any) {
			plan.reports = append(plan.reports, portReport{svc, reason, fmt.Sprintf(format, args...)})
		}
		ports := nodePorts(svc)
		if usesHealthCheck(svc) && svc.Spec.HealthCheckNodePort != 0 {
			ports = append(ports, svc.Spec.HealthCheckNodePort)
		}
		for _, port := range ports {
			switch {
			case !pool.ports.contains(port):
				report("PortOutOfRange", "Port %d is not within the port range %v; please recreate service", port, pool.ports)
			case plan.bits.Bit(pool.bit(port)) == 1:
				report("PortAlreadyAllocated", "Port %d was assigned to multiple services; please recreate service", port)
			default:
				if taken.Bit(pool.bit(port)) == 0 {
					report("PortNotAllocated", "Port %d is not allocated; repairing", port)
				}
				plan.bits.SetBit(plan.bits, pool.bit(port), 1)
			}
		}
	}
	leaked := new(big.Int).AndNot(taken, plan.bits)
	for _, port := range pool.portsOf(leaked) {
		rounds := a.leaks.rounds[port] + 1
		if rounds >= leakRounds {
			plan.freed = append(plan.freed, port)
			continue
		}
		plan.leaks[port] = rounds
		plan.bits.SetBit(plan.bits, pool.bit(port), 1)
	}
	return plan
}
