package netfilter

import "net/netip"

// Range is a range of addresses of one family. Both ends are in it.
type Range struct{ First, Last netip.Addr }
