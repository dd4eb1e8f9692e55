package machine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Reserved is what pods may not have.
type Reserved struct {
	System   corev1.ResourceList // --system-reserved
	Kube     corev1.ResourceList // --kube-reserved
	Eviction corev1.ResourceList // of hard eviction thresholds
}

// Allocatable is what the scheduler may give to pods.
func Allocatable(capacity corev1.ResourceList, reserved Reserved) corev1.ResourceList {
	return without(capacity, reserved.System, reserved.Kube, reserved.Eviction)
}

// Enforced is what the cgroup of all pods is limited to: "pid" included if some are kept for the system.
func Enforced(capacity corev1.ResourceList, reserved Reserved) corev1.ResourceList {
	if hasPID(reserved.System) || hasPID(reserved.Kube) {
		if maximum, _, err := Pids(); err == nil {
			capacity = maps.Clone(capacity)
			capacity[ResourcePID] = *resource.NewQuantity(maximum, resource.DecimalSI)
		}
	}
	return without(capacity, reserved.System, reserved.Kube)
}

func hasPID(list corev1.ResourceList) bool {
	_, ok := list[ResourcePID]
	return ok
}

// without subtracts; nothing gets below zero. Memory in huge pages is no other memory.
func without(capacity corev1.ResourceList, reserved ...corev1.ResourceList) corev1.ResourceList {
	left := corev1.ResourceList{}
	for name, quantity := range capacity {
		rest := quantity.DeepCopy()
		for _, list := range reserved {
			if part, ok := list[name]; ok {
				rest.Sub(part)
			}
		}
		left[name] = atLeastZero(rest)
	}
	for name, quantity := range left {
		if strings.HasPrefix(string(name), corev1.ResourceHugePagesPrefix) {
			memory := left[corev1.ResourceMemory].DeepCopy()
			memory.Sub(quantity)
			left[corev1.ResourceMemory] = atLeastZero(memory)
		}
	}
	return left
}

func atLeastZero(quantity resource.Quantity) resource.Quantity {
	if quantity.Sign() < 0 {
		quantity.Set(0)
	}
	return quantity
}

// Check says whether more is reserved than there is.
func Check(capacity corev1.ResourceList, reserved Reserved) error {
	var wrong []string
	for _, name := range slices.Sorted(maps.Keys(capacity)) {
		var sum resource.Quantity
		for _, list := range []corev1.ResourceList{reserved.System, reserved.Kube, reserved.Eviction} {
			if part, ok := list[name]; ok {
				sum.Add(part)
			}
		}
		if have := capacity[name]; sum.Cmp(have) > 0 {
			wrong = append(wrong, fmt.Sprintf("Resource %q has a reservation of %v but capacity of %v. Expected capacity >= reservation.", name, sum.String(), have.String()))
		}
	}
	if len(wrong) > 0 {
		return errors.New("invalid Node Allocatable configuration. " + strings.Join(wrong, " "))
	}
	return nil
}

// ParseReserved reads what a flag reserves: "cpu": "200m", "memory": "500Mi", "ephemeral-storage", "pid".
func ParseReserved(flag map[string]string) (corev1.ResourceList, error) {
	if len(flag) == 0 {
		return nil, nil
	}
	list := corev1.ResourceList{}
	for _, name := range slices.Sorted(maps.Keys(flag)) {
		switch corev1.ResourceName(name) {
		case corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceEphemeralStorage, ResourcePID:
		default:
			return nil, fmt.Errorf("cannot reserve %q resource", name)
		}
		quantity, err := resource.ParseQuantity(flag[name])
		if err != nil {
			return nil, fmt.Errorf("failed to parse quantity %q for %q resource: %w", flag[name], name, err)
		}
		if quantity.Sign() < 0 {
			return nil, fmt.Errorf("resource quantity for %q cannot be negative: %v", name, flag[name])
		}
		list[corev1.ResourceName(name)] = quantity
	}
	return list, nil
}
