package nodeipam

import (
	"fmt"
	"math/big"
	"net/netip"
)

// maxBits bounds how many nodes a network can have, as upstream does.
const maxBits = 16

// pool is a cluster's network of one address family, cut into pieces of one size. Pieces are counted, so that two Nodes that somebody
// gave the same one can go one after the other.
type pool struct {
	network netip.Prefix
	bits    int // length of a piece's prefix
	used    []uint16
	next    int // where to look first: a piece that was given back rests until all others have been used
}

func newPool(network netip.Prefix, bits int) (*pool, error) {
	network = network.Masked()
	switch {
	case bits < network.Bits():
		return nil, fmt.Errorf("--node-cidr-mask-size %d is shorter than the prefix of --cluster-cidr %s", bits, network)
	case bits > network.Addr().BitLen():
		return nil, fmt.Errorf("--node-cidr-mask-size %d is too long for --cluster-cidr %s", bits, network)
	case bits-network.Bits() > maxBits:
		return nil, fmt.Errorf("--cluster-cidr %s has more than 2^%d networks of --node-cidr-mask-size %d", network, maxBits, bits)
	}
	return &pool{network: network, bits: bits, used: make([]uint16, 1<<(bits-network.Bits()))}, nil
}

// allocate takes a piece that nobody has; false when there is none.
func (p *pool) allocate() (netip.Prefix, bool) {
	for range p.used {
		at := p.next
		p.next = (p.next + 1) % len(p.used)
		if p.used[at] == 0 {
			p.used[at]++
			return p.piece(at), true
		}
	}
	return netip.Prefix{}, false
}

// occupy takes all pieces that share addresses with a network, which may lie elsewhere.
func (p *pool) occupy(network netip.Prefix) { p.count(network, 1) }

// release gives back what occupy or allocate took.
func (p *pool) release(network netip.Prefix) { p.count(network, -1) }

func (p *pool) count(network netip.Prefix, by int) {
	if !p.network.Overlaps(network) {
		return
	}
	first, last := 0, len(p.used)-1
	if network.Bits() > p.network.Bits() {
		first = p.index(network.Masked().Addr())
		last = first
		if network.Bits() < p.bits {
			last += 1<<(p.bits-network.Bits()) - 1
		}
	}
	for i := first; i <= last; i++ {
		p.used[i] = uint16(max(0, int(p.used[i])+by))
	}
}

// index says which piece an address lies in.
func (p *pool) index(a netip.Addr) int {
	offset := new(big.Int).Sub(number(a), number(p.network.Addr()))
	return int(offset.Rsh(offset, uint(a.BitLen()-p.bits)).Int64())
}

func (p *pool) piece(index int) netip.Prefix {
	base := p.network.Addr()
	offset := new(big.Int).Lsh(big.NewInt(int64(index)), uint(base.BitLen()-p.bits))
	bytes := offset.Add(offset, number(base)).FillBytes(make([]byte, base.BitLen()/8))
	address, _ := netip.AddrFromSlice(bytes)
	return netip.PrefixFrom(address, p.bits)
}

func number(a netip.Addr) *big.Int { return new(big.Int).SetBytes(a.AsSlice()) }
