package network

import (
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// writeRules replaces the table for masquerading:
//
//	chain raw         (prerouting, before everything) 127.0.0.0/8 from elsewhere is dropped, as route_localnet no longer does it
//	chain postrouting (source NAT)
//	    from 127.0.0.0/8 to the bridge         masquerade   a host port asked for at localhost
//	    from own pods to own pods, translated  masquerade   the bridge would take the answer past the translation
//	    from own pods to pods and nodes        leave        these two only if elsewhere is ours
//	    from own pods to elsewhere             masquerade
func writeRules(name string, r rules) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	table := replaceTable(c, name)
	raw := c.AddChain(&nftables.Chain{Name: "raw", Table: table, Type: nftables.ChainTypeFilter, Hooknum: nftables.ChainHookPrerouting, Priority: nftables.ChainPriorityRaw})
	post := c.AddChain(&nftables.Chain{Name: "postrouting", Table: table, Type: nftables.ChainTypeNAT, Hooknum: nftables.ChainHookPostrouting, Priority: nftables.ChainPriorityNATSource})
	loopback := netip.MustParsePrefix("127.0.0.0/8")
	rule := func(chain *nftables.Chain, matches ...[]expr.Any) {
		var all []expr.Any
		for _, m := range matches {
			all = append(all, m...)
		}
		c.AddRule(&nftables.Rule{Table: table, Chain: chain, Exprs: all})
	}
	rule(raw, notFromLoopback(), addressIn(destination, loopback), drop())
	rule(post, addressIn(source, loopback), toLink(r.bridge), masquerade())
	for i, multicast := range []netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8")} {
		near, err := addSet(c, table, i == 0, r.near[i])
		if err != nil {
			return err
		}
		for _, own := range r.own {
			if own.Addr().Is4() != (i == 0) {
				continue
			}
			rule(post, addressIn(source, own), addressIn(destination, own), translated(), masquerade())
			if !r.elsewhere {
				continue
			}
			rule(post, addressIn(source, own), inSet(destination, near), leave())
			rule(post, addressIn(source, own), addressIn(destination, multicast), leave())
			rule(post, addressIn(source, own), masquerade())
		}
	}
	if err := c.Flush(); err != nil {
		return fmt.Errorf("write nftables table %s: %w", name, err)
	}
	return nil
}

// replaceTable begins a transaction with an empty table.
func replaceTable(c *nftables.Conn, name string) *nftables.Table {
	table := &nftables.Table{Family: nftables.TableFamilyINet, Name: name}
	c.AddTable(table) // or there is nothing to delete
	c.DelTable(table)
	return c.AddTable(table)
}

// addSet makes a set of address ranges.
func addSet(c *nftables.Conn, table *nftables.Table, is4 bool, spans []span) (*nftables.Set, error) {
	// The ID is the transaction's own; the library would count in a variable without a lock.
	set := &nftables.Set{Table: table, ID: 4, Name: "near4", KeyType: nftables.TypeIPAddr, Interval: true}
	if !is4 {
		set.ID, set.Name, set.KeyType = 6, "near6", nftables.TypeIP6Addr
	}
	if err := c.AddSet(set, nil); err != nil {
		return nil, fmt.Errorf("nftables set %s: %w", set.Name, err)
	}
	const batch = 200 // a message has 64 KiB
	for len(spans) > 0 {
		part := spans[:min(batch, len(spans))]
		spans = spans[len(part):]
		var elements []nftables.SetElement
		for _, s := range part {
			elements = append(elements, nftables.SetElement{Key: s.first.AsSlice()})
			if end := s.last.Next(); end.IsValid() {
				elements = append(elements, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
			}
		}
		if err := c.SetAddElements(set, elements); err != nil {
			return nil, fmt.Errorf("nftables set %s: %w", set.Name, err)
		}
	}
	return set, nil
}

// tableIsComplete says that a table has rules. Others flush whole rule sets, but do not pick at single rules of ours.
func tableIsComplete(name string) (bool, error) {
	c, err := nftables.New()
	if err != nil {
		return false, fmt.Errorf("open nftables: %w", err)
	}
	chains, err := c.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("list nftables chains: %w", err)
	}
	found := 0
	for _, chain := range chains {
		if chain.Table.Name != name {
			continue
		}
		rules, err := c.GetRules(chain.Table, chain)
		if err != nil {
			return false, fmt.Errorf("list nftables rules: %w", err)
		}
		if len(rules) == 0 {
			return false, nil
		}
		found++
	}
	return found > 0, nil
}

// removeTable removes a table; that there is none is no error.
func removeTable(name string) error {
	c, err := nftables.New()
	if err != nil {
		return fmt.Errorf("open nftables: %w", err)
	}
	c.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: name})
	if err := c.Flush(); err != nil && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("remove nftables table %s: %w", name, err)
	}
	return nil
}
