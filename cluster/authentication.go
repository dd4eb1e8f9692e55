package cluster

import (
	"encoding/json"

	"vigil/apiserver"
	"vigil/apiserver/authn"
	"vigil/pki"
)

// Authentication says by what callers of an API server may prove who they are.
type Authentication = apiserver.Authentication

// frontProxy is how `vigil up` trusts front proxies: those of the front-proxy CA, with kubeadm's names.
func frontProxy(certificates *pki.Set) authn.Proxy {
	return authn.Proxy{
		CAFile:          certificates.Path("front-proxy-ca.crt"),
		AllowedNames:    []string{"front-proxy-client"},
		UsernameHeaders: []string{"X-Remote-User"},
		UIDHeaders:      []string{"X-Remote-Uid"},
		GroupHeaders:    []string{"X-Remote-Group"},
		ExtraPrefixes:   []string{"X-Remote-Extra-"},
	}
}

// authenticationData is what the ConfigMap extension-apiserver-authentication says of a server: its authorities and the headers
// of front proxies, lists as JSON.
func authenticationData(server *apiserver.Server, proxy authn.Proxy) map[string]string {
	data := map[string]string{}
	if ca := server.Authenticator().ClientCA(); ca != nil {
		data["client-ca-file"] = string(ca.PEM())
	}
	ca := server.Authenticator().ProxyCA()
	if ca == nil {
		return data
	}
	data["requestheader-client-ca-file"] = string(ca.PEM())
	for key, list := range map[string][]string{
		"allowed-names": proxy.AllowedNames, "extra-headers-prefix": proxy.ExtraPrefixes, "group-headers": proxy.GroupHeaders,
		"username-headers": proxy.UsernameHeaders, "uid-headers": proxy.UIDHeaders,
	} {
		if list == nil {
			list = []string{}
		}
		text, err := json.Marshal(list)
		if err != nil {
			continue // strings always encode
		}
		data["requestheader-"+key] = string(text)
	}
	return data
}
