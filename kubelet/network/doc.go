// Package network gives every pod of a node an address that all other pods reach without translation.
//
// A pod's interface is made by the runtime through CNI: Network writes the configuration (plug-ins bridge and host-local over the
// node's spec.podCIDRs) and keeps what lies around it, all from the Node objects:
//
//	pod - veth - bridge vgb… -+- other pods of the node
//	                          +- route to another node's podCIDR
//	                          |    host-gw: via that node's InternalIP, when that is on a network of this node
//	                          |    vxlan:   via the device vgx…, whose neighbours and forwarding entries are written too
//	                          +- anywhere else: with the node's own address (masquerade)
//
// Packets between pods, and between pods and nodes, keep their addresses. Host ports lead to pods by rules in a table of their own.
//
// It is level-triggered: each round works out what should be and compares it with what the kernel has, under names, a route
// protocol and table names that nobody else uses; what should not be goes. So a restart changes nothing that is right, and no
// traffic notices. Nothing is ever taken from others: what carries none of our marks is not looked at.
//
// Kernel state lives in the network namespace of the calling thread. Nodes that share one have bridges and tables of their own and reach each
// other by the bridges; only one of them can have a VXLAN device.
//
// Not here: Services, network policies, and who may have which host port (the scheduler and kubelet/admit).
//
// Start at Network.sync; plan.go says what should be, apply_linux.go makes it so.
package network
