package netfilter

import (
	"fmt"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// Table is a table that is being written. Nothing of it is in the kernel before Commit.
type Table struct {
	conn  *nftables.Conn
	table *nftables.Table
	sets  uint32 // that were added
}

// ReplaceTable begins a transaction that replaces what the table has by what is added from now on.
func ReplaceTable(name string) (*Table, error) {
	c, err := open()
	if err != nil {
		return nil, err
	}
	table := &nftables.Table{Family: nftables.TableFamilyINet, Name: name}
	c.AddTable(table) // or there is nothing to delete
	c.DelTable(table)
	return &Table{conn: c, table: c.AddTable(table)}, nil
}

// Commit writes the table. When it fails, the kernel keeps the table that it had.
func (t *Table) Commit() error {
	if err := t.conn.Flush(); err != nil {
		return fmt.Errorf("write nftables table %s: %w", t.table.Name, err)
	}
	return nil
}

// Hook is the point on a packet's way at which the kernel calls a chain.
type Hook struct {
	kind     nftables.ChainType
	hook     *nftables.ChainHook
	priority *nftables.ChainPriority
}

// The hooks of base chains.
var (
	// RawPrerouting sees packets from elsewhere before everything else does.
	RawPrerouting = Hook{nftables.ChainTypeFilter, nftables.ChainHookPrerouting, nftables.ChainPriorityRaw}
	// Prerouting and Output change destinations: of packets from elsewhere, and of packets of this machine.
	Prerouting = Hook{nftables.ChainTypeNAT, nftables.ChainHookPrerouting, nftables.ChainPriorityNATDest}
	Output     = Hook{nftables.ChainTypeNAT, nftables.ChainHookOutput, nftables.ChainPriorityNATDest}
	// Postrouting changes sources.
	Postrouting = Hook{nftables.ChainTypeNAT, nftables.ChainHookPostrouting, nftables.ChainPriorityNATSource}
)

// Chain is a chain of a Table.
type Chain struct {
	in    *Table
	chain *nftables.Chain
}

// Base adds a chain that the kernel calls at a hook.
func (t *Table) Base(name string, at Hook) *Chain {
	return &Chain{t, t.conn.AddChain(&nftables.Chain{Name: name, Table: t.table, Type: at.kind, Hooknum: at.hook, Priority: at.priority})}
}

// Chain adds a chain that rules jump to.
func (t *Table) Chain(name string) *Chain {
	return &Chain{t, t.conn.AddChain(&nftables.Chain{Name: name, Table: t.table})}
}

// Rule adds a rule at the end of the chain. A packet goes from part to part until one does not match.
func (c *Chain) Rule(parts ...Part) {
	var all []expr.Any
	for _, part := range parts {
		all = append(all, part...)
	}
	c.in.conn.AddRule(&nftables.Rule{Table: c.in.table, Chain: c.chain, Exprs: all})
}

// Set is a set of addresses of a Table, all of one family.
type Set struct{ set *nftables.Set }

// Addresses adds a set with ranges of IPv4 addresses, or of IPv6 addresses. The ranges must not overlap.
func (t *Table) Addresses(name string, is4 bool, ranges []Range) (Set, error) {
	t.sets++
	// The ID is the transaction's own; the library would count in a variable without a lock.
	set := &nftables.Set{Table: t.table, ID: t.sets, Name: name, KeyType: nftables.TypeIP6Addr, Interval: true}
	if is4 {
		set.KeyType = nftables.TypeIPAddr
	}
	if err := t.conn.AddSet(set, nil); err != nil {
		return Set{}, fmt.Errorf("nftables set %s: %w", set.Name, err)
	}
	const batch = 200 // a message has 64 KiB
	for len(ranges) > 0 {
		part := ranges[:min(batch, len(ranges))]
		ranges = ranges[len(part):]
		var elements []nftables.SetElement
		for _, r := range part {
			elements = append(elements, nftables.SetElement{Key: r.First.AsSlice()})
			if end := r.Last.Next(); end.IsValid() {
				elements = append(elements, nftables.SetElement{Key: end.AsSlice(), IntervalEnd: true})
			}
		}
		if err := t.conn.SetAddElements(set, elements); err != nil {
			return Set{}, fmt.Errorf("nftables set %s: %w", set.Name, err)
		}
	}
	return Set{set}, nil
}
