// Package serviceip gives services their cluster IPs and node ports.
//
// What is taken is written in etcd, in upstream's places, so that any number of API servers, Vigil's or upstream's,
// can allocate from the same ranges:
//
//	/registry/ipaddresses/10.96.0.10      a networking.k8s.io/v1 IPAddress for each address; creating it takes the address
//	/registry/ranges/servicenodeports     one RangeAllocation; bit i of its data is node port base+i, changed by compare-and-swap
//
// An address or port is taken before the service that uses it is written, and given back after the service that used
// it was deleted or changed. A server that dies in between leaves something taken that nobody uses. [Allocator.Repair],
// at start and every few minutes, gives back what is left over, takes what a service has without having taken it, and
// reports what two services share.
//
// It promises that two services never get the same address or node port from it, however many servers allocate. It does
// not promise that everything free can be had: leftovers come back after minutes.
//
// Addresses come from the configured ranges, and when those are full or a service asks for it, from the networks of ServiceCIDRs
// that are ready (KEP-1880).
//
// The ranges are split: what the server chooses comes from the upper part as long as there is something, so that
// users who choose for themselves from the lower part seldom collide (KEP-3070 for addresses, KEP-3668 for ports).
package serviceip
