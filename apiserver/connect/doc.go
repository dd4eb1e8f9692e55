// Package connect answers requests for the subresources through which bytes flow: pods/exec, attach, portforward and log go to
// the kubelet of the pod's node, pods/proxy, services/proxy and nodes/proxy to what they name.
//
// To kubelets the server speaks TLS with a client certificate of its own and, with an authority to check them by, knows that it is
// them. Of pods and services behind a proxy nothing is checked, as upstream does not: what is said to them is the caller's.
// They are never dialled at addresses of the server's own host (loopback, link-local), whatever an object says, unless the
// configuration allows it.
//
// Clients upgrade over HTTP/1.1. SPDY and the old WebSocket protocols pass through to the kubelet as they are; v5.channel.k8s.io and
// port forwarding through a WebSocket (KEP-4006) are translated into SPDY here, by the library that kube-apiserver does it with. An upgraded
// connection lives as long as both its ends, or until the server stops.
//
// Start reading at Connector.Serve; pods.go says where a request of a pod goes, proxy.go where the others go, kubelets.go how kubelets
// are found and trusted.
package connect
