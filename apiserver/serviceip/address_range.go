package serviceip

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
)

// addressRange is the usable addresses of a network: all but the network's own and, for IPv4, the broadcast address.
//
//	10.96.0.0/24:   .0   .1 ... .16   .17 ... .254   .255
//	                     lower        upper
//	                     static = 16  size-static = 238
type addressRange struct {
	prefix netip.Prefix
	family corev1.IPFamily
	first  netip.Addr
	size   uint64 // number of usable addresses
	static uint64 // how many of them, from first on, are the lower part
}

func newAddressRange(prefix netip.Prefix) (addressRange, error) {
	prefix = prefix.Masked()
	if !prefix.IsValid() {
		return addressRange{}, errors.New("not a network")
	}
	r := addressRange{prefix: prefix, family: corev1.IPv4Protocol, first: prefix.Addr().Next()}
	hostBits := prefix.Addr().BitLen() - prefix.Bits()
	unusable := uint64(2)
	if prefix.Addr().Is6() {
		if prefix.Bits() < 64 {
			return addressRange{}, fmt.Errorf("shortest allowed prefix length for service CIDR is 64, got %d", prefix.Bits())
		}
		r.family = corev1.IPv6Protocol
		unusable = 1
	}
	total := uint64(math.MaxUint64)
	r.size = total // of a /64: 2^64 - 1, which is just what is usable
	if hostBits < 64 {
		total = 1 << hostBits
		if total <= unusable {
			return addressRange{}, errors.New("no usable address")
		}
		r.size = total - unusable
	}
	r.static = lowerPart(total, 16, 256)
	return r, nil
}

// lowerPart is the size of the part of a range that is left to users: a share-th of it, at least 16 and at most limit;
// nothing of ranges up to 16. The formula is upstream's: servers that share a range should agree.
func lowerPart(total, share, limit uint64) uint64 {
	if total <= 16 {
		return 0
	}
	return min(max(total/share, 16), limit)
}

// at returns the i-th usable address, i < size.
func (r *addressRange) at(i uint64) netip.Addr {
	if r.first.Is4() {
		b := r.first.As4()
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(b[:])+uint32(i))
		return netip.AddrFrom4(b)
	}
	b := r.first.As16()
	binary.BigEndian.PutUint64(b[8:], binary.BigEndian.Uint64(b[8:])+i)
	return netip.AddrFrom16(b)
}

// contains is true for usable addresses.
func (r *addressRange) contains(ip netip.Addr) bool {
	return r.prefix.Contains(ip) && !ip.Less(r.first) && !r.at(r.size-1).Less(ip)
}
