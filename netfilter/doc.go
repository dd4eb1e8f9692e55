// Package netfilter has the words that packet rules are written in: tables, chains, sets of addresses, matches and statements of nftables.
//
//	table, err := netfilter.ReplaceTable("vigil-example")
//	post := table.Base("postrouting", netfilter.Postrouting)
//	near, err := table.Addresses("near4", true, ranges)
//	post.Rule(netfilter.AddressIn(netfilter.Source, pods), netfilter.InSet(netfilter.Destination, near), netfilter.Return())
//	post.Rule(netfilter.AddressIn(netfilter.Source, pods), netfilter.Masquerade())
//	err = table.Commit()
//
// A table is written as a whole, in one transaction: the kernel has the old table or the new one, never a part of it, and connections that
// are there keep their translations. All tables are of the family inet: they see packets of IPv4 and of IPv6.
//
// The package knows nothing of pods and Services. What it does not do: it changes no table in parts, it has no maps, and it leaves the tables of others alone,
// since callers give names that nobody else uses. It works in the network namespace of the calling thread.
//
// docs/decisions/rules.md says why the rules are written with google/nftables. Start reading at table_linux.go.
package netfilter
