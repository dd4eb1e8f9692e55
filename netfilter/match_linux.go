package netfilter

import (
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// Part is a part of a rule: a match or a statement. Each is complete in itself and works in the registers 1 and 2.
type Part []expr.Any

// End says which address of a packet is meant.
type End bool

// The ends of a packet's way.
const (
	Source      End = false
	Destination End = true
)

// Family matches packets of IPv4 or of IPv6.
func Family(is4 bool) Part {
	protocol := byte(unix.NFPROTO_IPV6)
	if is4 {
		protocol = unix.NFPROTO_IPV4
	}
	return Part{&expr.Meta{Key: expr.MetaKeyNFPROTO, Register: 1}, equals([]byte{protocol})}
}

func equals(data []byte) *expr.Cmp  { return &expr.Cmp{Op: expr.CmpOpEq, Register: 1, Data: data} }
func differs(data []byte) *expr.Cmp { return &expr.Cmp{Op: expr.CmpOpNeq, Register: 1, Data: data} }

// loadAddress puts an address of the packet into the register (RFC 791, RFC 8200).
func loadAddress(e End, is4 bool) *expr.Payload {
	load := &expr.Payload{DestRegister: 1, Base: expr.PayloadBaseNetworkHeader, Offset: 8, Len: 16}
	if is4 {
		load.Offset, load.Len = 12, 4
	}
	if e == Destination {
		load.Offset += load.Len
	}
	return load
}

// AddressIn matches packets with an address in a network.
func AddressIn(e End, p netip.Prefix) Part {
	is4 := p.Addr().Is4()
	match := append(Family(is4), loadAddress(e, is4))
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

// AddressNotIn matches packets of the network's family with an address outside of the network.
func AddressNotIn(e End, p netip.Prefix) Part {
	match := AddressIn(e, p)
	match[len(match)-1].(*expr.Cmp).Op = expr.CmpOpNeq
	return match
}

// InSet matches packets with an address in a set.
func InSet(e End, s Set) Part {
	is4 := s.set.KeyType == nftables.TypeIPAddr
	return append(Family(is4), loadAddress(e, is4), &expr.Lookup{SourceRegister: 1, SetName: s.set.Name, SetID: s.set.ID})
}

// linkName is a link's name as the kernel compares it: 16 bytes, the rest zero.
func linkName(name string) []byte {
	padded := make([]byte, unix.IFNAMSIZ)
	copy(padded, name)
	return padded
}

// ToLink matches packets that leave through a link.
func ToLink(name string) Part {
	return Part{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, equals(linkName(name))}
}

// NotToLink matches packets that leave through other links.
func NotToLink(name string) Part {
	return Part{&expr.Meta{Key: expr.MetaKeyOIFNAME, Register: 1}, differs(linkName(name))}
}

// NotFromLoopback matches packets that came from elsewhere.
func NotFromLoopback() Part {
	return Part{&expr.Meta{Key: expr.MetaKeyIIFNAME, Register: 1}, differs(linkName("lo"))}
}

// Translated matches connections whose destination was changed (IPS_DST_NAT in linux/netfilter/nf_conntrack_common.h).
func Translated() Part {
	const destinationNAT = 1 << 5
	return Part{
		&expr.Ct{Key: expr.CtKeySTATUS, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: binaryutil.NativeEndian.PutUint32(destinationNAT), Xor: make([]byte, 4)},
		differs(make([]byte, 4)),
	}
}

// ToThisMachine matches packets for an address of this machine.
func ToThisMachine() Part {
	return Part{
		&expr.Fib{Register: 1, FlagDADDR: true, ResultADDRTYPE: true},
		equals(binaryutil.NativeEndian.PutUint32(unix.RTN_LOCAL)),
	}
}

// ToPort matches packets for a port of a transport protocol.
func ToPort(protocol uint8, port uint16) Part {
	return Part{
		&expr.Meta{Key: expr.MetaKeyL4PROTO, Register: 1}, equals([]byte{protocol}),
		&expr.Payload{DestRegister: 1, Base: expr.PayloadBaseTransportHeader, Offset: 2, Len: 2}, equals(binaryutil.BigEndian.PutUint16(port)),
	}
}

// TranslateTo changes the destination.
func TranslateTo(to netip.AddrPort) Part {
	nat := &expr.NAT{Type: expr.NATTypeDestNAT, Family: unix.NFPROTO_IPV6, RegAddrMin: 1, RegProtoMin: 2, Specified: true}
	if to.Addr().Is4() {
		nat.Family = unix.NFPROTO_IPV4
	}
	return Part{
		&expr.Immediate{Register: 1, Data: to.Addr().AsSlice()},
		&expr.Immediate{Register: 2, Data: binaryutil.BigEndian.PutUint16(to.Port())},
		nat,
	}
}

// Masquerade gives packets an address of the link through which they leave.
func Masquerade() Part { return Part{&expr.Masq{FullyRandom: true}} }

// Return ends the chain for a packet: the chain that jumped here goes on, and a base chain lets the packet pass.
func Return() Part { return Part{&expr.Verdict{Kind: expr.VerdictReturn}} }

// Drop drops packets.
func Drop() Part { return Part{&expr.Verdict{Kind: expr.VerdictDrop}} }

// Jump goes on in a chain of the same table.
func Jump(to *Chain) Part { return Part{&expr.Verdict{Kind: expr.VerdictJump, Chain: to.chain.Name}} }
