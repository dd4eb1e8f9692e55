package serviceip

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/object"
	"vigil/store"
)

// casTries bounds how often the bitmap is tried to be swapped. Losing so often in a row takes that many other servers
// writing services at the same time, over and over.
const casTries = 100

var rangeAllocationType = &object.Type{
	APIVersion: "v1", Kind: "RangeAllocation",
	New: func() runtime.Object { return &corev1.RangeAllocation{} },
}

// portPool is the RangeAllocation of node ports.
type portPool struct {
	store *store.Store
	ports PortRange
	lower int // how many ports from ports.First on are the lower part

	mu   sync.Mutex // held during a swap, so that this server does not lose against itself
	last store.KV   // what was seen last; swaps start from it
}

func newPortPool(s *store.Store, ports PortRange) *portPool {
	return &portPool{store: s, ports: ports, lower: int(lowerPart(uint64(ports.Last-ports.First)+1, 32, 128))}
}

func (p *portPool) key() string { return p.store.Prefix() + "ranges/servicenodeports" }

// notInRange is the error for a port outside of the range.
func (p *portPool) notInRange() error {
	return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %s", p.ports)
}

// portRequest is one node port that is wanted: a certain one, or any when port is 0.
type portRequest struct {
	port int32
	err  func(error) error // makes the answer to the client out of what went wrong with this one
	into []*int32          // where the port is written to
}

// take takes all the ports in one swap, or none.
func (p *portPool) take(ctx context.Context, requests []portRequest) ([]int32, error) {
	if len(requests) == 0 {
		return nil, nil
	}
	var taken []int32
	err := p.swap(ctx, func(bits *big.Int) error {
		taken = make([]int32, len(requests))
		for i, r := range requests { // those that are asked for first, or a chosen one might be in their way
			if r.port == 0 {
				continue
			}
			if !p.ports.contains(r.port) {
				return r.err(p.notInRange())
			}
			if bits.Bit(p.bit(r.port)) == 1 {
				return r.err(errPortTaken)
			}
			bits.SetBit(bits, p.bit(r.port), 1)
			taken[i] = r.port
		}
		for i, r := range requests {
			if r.port != 0 {
				continue
			}
			bit, ok := p.freeBit(bits)
			if !ok {
				return r.err(errFull)
			}
			bits.SetBit(bits, bit, 1)
			taken[i] = p.ports.First + int32(bit)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i, r := range requests {
		for _, into := range r.into {
			*into = taken[i]
		}
	}
	return taken, nil
}

// give gives ports back; those that are not taken or not in the range are passed over. When its error is
// store.ErrUncertain it must not be tried again: the ports may be somebody else's by then.
func (p *portPool) give(ctx context.Context, ports []int32) error {
	if len(ports) == 0 {
		return nil
	}
	return p.swap(ctx, func(bits *big.Int) error {
		for _, port := range ports {
			if p.ports.contains(port) {
				bits.SetBit(bits, p.bit(port), 0)
			}
		}
		return nil
	})
}

// swap changes the bitmap. change may be called several times, each time with the newest bits, and gives up by an
// error.
func (p *portPool) swap(ctx context.Context, change func(bits *big.Int) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.ModRev == 0 {
		if err := p.readLocked(ctx); err != nil {
			return err
		}
	}
	seen := false // whether last is surely not older than this call
	for range casTries {
		bits, err := p.decode(p.last)
		if err != nil {
			return err
		}
		old := new(big.Int).Set(bits)
		err = change(bits)
		if unchanged := err == nil && old.Cmp(bits) == 0; err != nil || unchanged {
			if seen {
				return err
			}
			// Only the newest bits may say no, or that there is nothing to do.
			if err := p.readLocked(ctx); err != nil {
				return err
			}
			seen = true
			continue
		}
		err = p.writeLocked(ctx, bits)
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
		p.last, seen = conflict.Current, true
		if !conflict.Found {
			p.last = store.KV{Key: p.key()}
		}
	}
	return fmt.Errorf("change node port allocations: %w", errTooManyRetries)
}

// read returns the bits as they are now and the revision to swap at.
func (p *portPool) read(ctx context.Context) (bits *big.Int, rev int64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.readLocked(ctx); err != nil {
		return nil, 0, err
	}
	bits, err = p.decode(p.last)
	return bits, p.last.ModRev, err
}

// write replaces the bits if nobody has changed them since rev; a *store.ConflictError otherwise.
func (p *portPool) write(ctx context.Context, bits *big.Int, rev int64) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last.ModRev != rev {
		return &store.ConflictError{Current: p.last, Found: p.last.ModRev != 0}
	}
	return p.writeLocked(ctx, bits)
}

func (p *portPool) readLocked(ctx context.Context) error {
	kv, err := p.store.Get(ctx, p.key())
	if errors.Is(err, store.ErrNotFound) {
		kv, err = store.KV{Key: p.key()}, nil
	}
	if err != nil {
		return fmt.Errorf("read node port allocations: %w", err)
	}
	p.last = kv
	return nil
}

func (p *portPool) writeLocked(ctx context.Context, bits *big.Int) error {
	value, err := object.EncodeStored(rangeAllocationType, &corev1.RangeAllocation{Range: p.ports.String(), Data: bits.Bytes()})
	if err != nil {
		return err
	}
	rev, err := p.store.Update(ctx, p.key(), value, p.last.ModRev, 0)
	if err != nil {
		return err
	}
	p.last = store.KV{Key: p.key(), Value: value, ModRev: rev}
	return nil
}

// decode reads the bits, moved to this server's range when they were written for another one; ports outside of it
// are lost, as they are upstream when the range is changed.
func (p *portPool) decode(kv store.KV) (*big.Int, error) {
	bits := new(big.Int)
	if kv.ModRev == 0 {
		return bits, nil
	}
	v, err := object.NewVersion(rangeAllocationType, kv.Key, kv.ModRev, kv.Value)
	if err != nil {
		return nil, fmt.Errorf("decode node port allocations: %w", err)
	}
	obj, err := v.Decode()
	if err != nil {
		return nil, fmt.Errorf("decode node port allocations: %w", err)
	}
	ra := obj.(*corev1.RangeAllocation)
	bits.SetBytes(ra.Data)
	if ra.Range == p.ports.String() {
		return bits, nil
	}
	base, _, _ := strings.Cut(ra.Range, "-")
	first, err := strconv.Atoi(base)
	if err != nil {
		return nil, fmt.Errorf("decode node port allocations: range %q", ra.Range)
	}
	moved := new(big.Int)
	for i := range bits.BitLen() {
		if port := int32(first + i); bits.Bit(i) == 1 && p.ports.contains(port) {
			moved.SetBit(moved, p.bit(port), 1)
		}
	}
	return moved, nil
}

func (p *portPool) bit(port int32) int { return int(port - p.ports.First) }

// freeBit chooses a random free bit, of the lower part only when the upper one is full.
func (p *portPool) freeBit(bits *big.Int) (int, bool) {
	size := int(p.ports.Last-p.ports.First) + 1
	for _, part := range [][2]int{{p.lower, size}, {0, p.lower}} {
		var free []int
		for i := part[0]; i < part[1]; i++ {
			if bits.Bit(i) == 0 {
				free = append(free, i)
			}
		}
		if len(free) > 0 {
			return free[rand.IntN(len(free))], true
		}
	}
	return 0, false
}

// portsOf are the ports whose bits are set, in order.
func (p *portPool) portsOf(bits *big.Int) []int32 {
	var ports []int32
	for i := range bits.BitLen() {
		if bits.Bit(i) == 1 {
			ports = append(ports, p.ports.First+int32(i))
		}
	}
	return slices.Clip(ports)
}
