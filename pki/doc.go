// Package pki makes and keeps the certificates, keys and kubeconfigs of a cluster under kubeadm's names.
//
//	DIR/pki/ca.{crt,key}                          signs everything that talks to the API server, and its serving certificate
//	DIR/pki/apiserver.{crt,key}                   API server, serving
//	DIR/pki/apiserver-kubelet-client.{crt,key}    API server to kubelets
//	DIR/pki/kubelet/NAME.{crt,key}                kubelet of a node, serving
//	DIR/pki/front-proxy-ca.{crt,key}              signs front proxies (aggregation)
//	DIR/pki/front-proxy-client.{crt,key}          API server to aggregated API servers
//	DIR/pki/etcd/ca.{crt,key}                     signs everything that talks to etcd
//	DIR/pki/etcd/{server,peer}.{crt,key}          etcd, both directions
//	DIR/pki/etcd/healthcheck-client.{crt,key}     probes of etcd
//	DIR/pki/apiserver-etcd-client.{crt,key}       API server to etcd
//	DIR/pki/sa.{key,pub}                          service-account tokens
//	DIR/{admin,controller-manager,scheduler}.conf kubeconfigs with embedded client certificates
//	DIR/kubelet.conf, DIR/nodes/NAME/kubelet.conf the same for the first node and for further ones
//
// [Ensure] makes what is missing, makes anew what is about to expire or lacks a name, and refuses what is damaged: it
// never overwrites a file that it cannot read. The authorities and the key of service accounts it makes only before the cluster has data. Keys are ECDSA P-256. Start reading at layout.go, the table.
package pki
