// Package protobufclient configures clients that speak protobuf with the API server. It is smaller than JSON and costs both sides less; the server
// keeps its objects so.
package protobufclient

import "k8s.io/client-go/rest"

// Config returns a copy of config for clients that send protobuf and ask for it. They take JSON from servers that have nothing else.
func Config(config *rest.Config) *rest.Config {
	config = rest.CopyConfig(config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = config.ContentType + ",application/json"
	return config
}
