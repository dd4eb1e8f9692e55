package eviction

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Amount is a quantity, or a part of the capacity.
type Amount struct {
	Quantity *resource.Quantity
	Part     float64 // of 1, when Quantity is nil
}

// of is the amount when so much is there in all.
func (a Amount) of(capacity *resource.Quantity) resource.Quantity {
	if a.Quantity != nil {
		return a.Quantity.DeepCopy()
	}
	return *resource.NewQuantity(int64(float64(capacity.Value())*a.Part), resource.BinarySI)
}

func (a Amount) String() string {
	if a.Quantity != nil {
		return a.Quantity.String()
	}
	return strconv.FormatFloat(a.Part*100, 'g', 6, 64) + "%"
}

// Threshold is met while less than Value is left of a signal.
type Threshold struct {
	Signal     Signal
	Value      Amount
	Soft       bool
	Grace      time.Duration // how long a soft threshold has to be met before pods are evicted
	MinReclaim *Amount       // by how much there has to be more than Value until it is no longer met; nil: 0
}

// key tells thresholds apart.
func (t Threshold) key() string { return fmt.Sprint(t.Signal, t.Soft, t.Grace, t.Value) }

// Flags are thresholds as the flags have them, by signal.
type Flags struct {
	Hard            map[string]string // --eviction-hard; nil: DefaultHard
	Soft            map[string]string // --eviction-soft
	SoftGracePeriod map[string]string // --eviction-soft-grace-period
	MinimumReclaim  map[string]string // --eviction-minimum-reclaim
	// NoPodsEnforced is --enforce-node-allocatable without pods: kubepods has no limit, and there is no allocatableMemory.available.
	NoPodsEnforced bool
}

// DefaultHard is upstream's --eviction-hard on Linux.
func DefaultHard() map[string]string {
	return map[string]string{"memory.available": "100Mi", "nodefs.available": "10%", "nodefs.inodesFree": "5%", "imagefs.available": "15%", "imagefs.inodesFree": "5%"}
}

// Parse reads thresholds. Its errors have upstream's texts.
func Parse(flags Flags) ([]Threshold, error) {
	if flags.Hard == nil {
		flags.Hard = DefaultHard()
	}
	hard, err := parseStatements(flags.Hard, false)
	if err != nil {
		return nil, err
	}
	soft, err := parseStatements(flags.Soft, true)
	if err != nil {
		return nil, err
	}
	graces, err := parseGracePeriods(flags.SoftGracePeriod)
	if err != nil {
		return nil, err
	}
	reclaims, err := parseReclaims(flags.MinimumReclaim)
	if err != nil {
		return nil, err
	}
	for i := range soft {
		grace, ok := graces[soft[i].Signal]
		if !ok {
			return nil, fmt.Errorf("grace period must be specified for the soft eviction threshold %v", soft[i].Signal)
		}
		soft[i].Grace = grace
	}
	all := append(hard, soft...)
	for i := range all {
		if reclaim, ok := reclaims[all[i].Signal]; ok {
			all[i].MinReclaim = &reclaim
		}
	}
	if flags.NoPodsEnforced {
		return all, nil
	}
	for _, t := range all {
		if t.Signal == MemoryAvailable && !t.Soft {
			t.Signal = AllocatableMemoryAvailable
			all = append(all, t)
		}
	}
	return all, nil
}

func knownSignal(name string) (Signal, error) {
	if _, ok := signals[Signal(name)]; !ok {
		return "", fmt.Errorf("unsupported eviction signal %v", name)
	}
	return Signal(name), nil
}

func parseStatements(statements map[string]string, soft bool) (parsed []Threshold, err error) {
	for _, name := range slices.Sorted(maps.Keys(statements)) {
		signal, err := knownSignal(name)
		if err != nil {
			return nil, err
		}
		value := statements[name]
		if value == "0%" || value == "100%" {
			continue // switched off
		}
		t := Threshold{Signal: signal, Soft: soft}
		if strings.HasSuffix(value, "%") {
			if t.Value.Part, err = parsePart(value); err != nil {
				return nil, err
			}
			if t.Value.Part < 0 {
				return nil, fmt.Errorf("eviction percentage threshold %v must be >= 0%%: %s", signal, value)
			}
			if t.Value.Part > 1 {
				return nil, fmt.Errorf("eviction percentage threshold %v must be <= 100%%: %s", signal, value)
			}
		} else {
			quantity, err := resource.ParseQuantity(value)
			if err != nil {
				return nil, err
			}
			if quantity.Sign() <= 0 {
				return nil, fmt.Errorf("eviction threshold %v must be positive: %s", signal, &quantity)
			}
			t.Value.Quantity = &quantity
		}
		parsed = append(parsed, t)
	}
	return parsed, nil
}

func parsePart(percentage string) (float64, error) {
	value, err := strconv.ParseFloat(strings.TrimSuffix(percentage, "%"), 32)
	return value / 100, err
}

func parseGracePeriods(statements map[string]string) (map[Signal]time.Duration, error) {
	parsed := map[Signal]time.Duration{}
	for _, name := range slices.Sorted(maps.Keys(statements)) {
		signal, err := knownSignal(name)
		if err != nil {
			return nil, err
		}
		grace, err := time.ParseDuration(statements[name])
		if err != nil {
			return nil, err
		}
		if grace < 0 {
			return nil, fmt.Errorf("invalid eviction grace period specified: %v, must be a positive value", statements[name])
		}
		parsed[signal] = grace
	}
	return parsed, nil
}

func parseReclaims(statements map[string]string) (map[Signal]Amount, error) {
	parsed := map[Signal]Amount{}
	for _, name := range slices.Sorted(maps.Keys(statements)) {
		signal, err := knownSignal(name)
		if err != nil {
			return nil, err
		}
		value := statements[name]
		if strings.HasSuffix(value, "%") {
			part, err := parsePart(value)
			if err != nil {
				return nil, err
			}
			if part <= 0 {
				return nil, fmt.Errorf("eviction percentage minimum reclaim %v must be positive: %s", signal, value)
			}
			parsed[signal] = Amount{Part: part}
			continue
		}
		quantity, err := resource.ParseQuantity(value)
		if err != nil {
			return nil, err
		}
		if quantity.Sign() < 0 {
			return nil, fmt.Errorf("negative eviction minimum reclaim specified for %v", signal)
		}
		parsed[signal] = Amount{Quantity: &quantity}
	}
	return parsed, nil
}

// Reservation is what hard thresholds keep from pods: of memory and of ephemeral storage.
func Reservation(thresholds []Threshold, capacity corev1.ResourceList) corev1.ResourceList {
	reserved := corev1.ResourceList{}
	for _, t := range thresholds {
		if t.Soft {
			continue
		}
		switch t.Signal {
		case MemoryAvailable:
			have := capacity[corev1.ResourceMemory]
			reserved[corev1.ResourceMemory] = t.Value.of(&have)
		case NodeFsAvailable:
			have := capacity[corev1.ResourceEphemeralStorage]
			reserved[corev1.ResourceEphemeralStorage] = t.Value.of(&have)
		}
	}
	return reserved
}

// withContainerFs adds the thresholds of containerfs: those of the file system that it is, whatever was said of it.
func withContainerFs(thresholds []Threshold, layout Layout) []Threshold {
	from := map[Signal]Signal{NodeFsAvailable: ContainerFsAvailable, NodeFsInodesFree: ContainerFsInodesFree}
	if layout.SeparateImages && !layout.SeparateLayers {
		from = map[Signal]Signal{ImageFsAvailable: ContainerFsAvailable, ImageFsInodesFree: ContainerFsInodesFree}
	}
	var all []Threshold
	for _, t := range thresholds {
		if t.Signal == ContainerFsAvailable || t.Signal == ContainerFsInodesFree {
			continue
		}
		all = append(all, t)
		if signal, ok := from[t.Signal]; ok {
			t.Signal = signal
			all = append(all, t)
		}
	}
	return all
}
