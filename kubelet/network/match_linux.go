package network

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Parts of nftables rules. Each is complete in itself and works in register 1.

// end says which address or port of a packet is meant.
type end bool

const (
	source      end = false
	destination end = true
)

// family matches IPv4 or IPv6.
func family(is4 bool) []expr.Any {
	protocol := byte(unix.NFPROTO_IPV6)
	if is4 {
		protocol = unix.NFPROTO_IPV4
	}
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, equals([]byte{protocol})}
}

func equals(data []byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }

// loadAddress puts an address of the packet into the register (RFC 791, RFC 8200).
func loadAddress(e end, is4 bool) *expr.Payload {
	load := &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: 16}
	if is4 {
		load.Offset, load.Len = 12, 4
	}
	if e == destination {
		load.Offset += load.Len
	}
	return load
}

// addressIn matches packets with an address in a network.
func addressIn(e end, p netip.Prefix) []expr.Any {
	is4 := p.Addr().Is4()
	match := append(family(is4), loadAddress(e, is4))
	if !p.IsSingleIP() {
		length := p.Addr().BitLen() / 8
		mask := make([]byte, length)
		for bit := range p.Bits() {
			mask[bit/8] |= 0x80 >> (bit % 8)
		}
		match = append(match, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(length), Mask: mask, Xor: make([]byte, length)})
	}
	return append(match, equals(p.Masked().Addr().AsSlice()))
}

// inSet matches packets with an address in a set.
func inSet(e end, set *nftables.Set) []expr.Any {
	is4 := set.KeyType == nftables.TypeIPAddr
	return append(family(is4), loadAddress(e, is4), &expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID})
}

// linkName is a link's name as the kernel compares it: 16 bytes, the rest zero.
func linkName(name string) []byte {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return padded
}

func toLink(name string) []expr.Any {
	return []expr.Any{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, equals(linkName(name))}
}

func notFromLoopback() []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: linkName("lo")},
	}
}

// translated matches connections whose destination was changed (IPS_DST_NAT in linux/netfilter/nf_conntrack_common.h).
func translated() []expr.Any {
	const destinationNAT = 1 << 5
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(destinationNAT), Xor: make([]byte, 4)},
		&expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: make([]byte, 4)},
	}
}

// toThisMachine matches packets for an address of this machine.
func toThisMachine() []expr.Any {
	return []expr.Any{
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		equals(binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)),
	}
}

// toPort matches packets for a port of a transport protocol.
func toPort(protocol uint8, port uint16) []expr.Any {
	return []expr.Any{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equals([]byte{protocol}),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, equals(binaryutil.BigEndian.PutUint16(port)),
	}
}

// translateTo changes the destination.
func translateTo(to netip.AddrPort) []expr.Any {
	nat := &expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV6, RegAddrMin: 1, RegProtoMin: 2, Specified: true}
	if to.Addr().Is4() {
		nat.Family = unix.NFPROTO_IPV4
	}
	return []expr.Any{
		&expr.Immediate{Register: 1, Data: to.Addr().AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(to.Port())},
		nat,
	}
}

func masquerade() []expr.Any { return []expr.Any{&expr.Masq{FullyRandom: true}} }
func leave() []expr.Any      { return []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}} }
func drop() []expr.Any       { return []expr.Any{&expr.Verdict{Kind: expr.VerdictDrop}} }
