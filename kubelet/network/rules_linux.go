package network

import (
	"net/netip"

	"vigil/netfilter"
)

// writeRules replaces the table for masquerading:
//
//	chain raw         (prerouting, before everything) 127.0.0.0/8 from elsewhere is dropped, as route_localnet no longer does it
//	chain postrouting (source NAT)
//	    from 127.0.0.0/8 to the bridge         masquerade   a host port asked for at localhost
//	    from own pods to own pods, translated  masquerade   the bridge would take the answer past the translation
//	    from own pods to pods and nodes        return       these two only if elsewhere is ours
//	    from own pods to elsewhere             masquerade
func writeRules(name string, r rules) error {
	table, err := netfilter.ReplaceTable(name)
	if err != nil {
		return err
	}
	raw := table.Base("raw", netfilter.RawPrerouting)
	post := table.Base("postrouting", netfilter.Postrouting)
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	from := func(p netip.Prefix) netfilter.Part { return netfilter.AddressIn(netfilter.Source, p) }
	to := func(p netip.Prefix) netfilter.Part { return netfilter.AddressIn(netfilter.Destination, p) }
	raw.Rule(netfilter.NotFromLoopback(), to(loopback), netfilter.Drop())
	post.Rule(from(loopback), netfilter.ToLink(r.bridge), netfilter.Masquerade())
	for i, family := range []struct{ near, multicast string }{{"near4", "224.0.0.0/4"}, {"near6", "ff00::/8"}} {
		is4 := i == 0
		near, err := table.Addresses(family.near, is4, r.near[i])
		if err != nil {
			return err
		}
		for _, own := range r.own {
			if own.Addr().Is4() != is4 {
				continue
			}
			post.Rule(from(own), to(own), netfilter.Translated(), netfilter.Masquerade())
			if !r.elsewhere {
				continue
			}
			post.Rule(from(own), netfilter.InSet(netfilter.Destination, near), netfilter.Return())
			post.Rule(from(own), to(netip.MustParsePrefix(family.multicast)), netfilter.Return())
			post.Rule(from(own), netfilter.Masquerade())
		}
	}
	return table.Commit()
}
