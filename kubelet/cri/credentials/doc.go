// Package credentials finds who may pull an image: in image pull secrets, and by asking credential provider plug-ins. It behaves as
// upstream's pkg/credentialprovider does.
//
// Registries are named by host, or host and path, and a host may have wildcards for parts of its name:
//
//	registry.example.com         every image of the host
//	registry.example.com/team    images below team
//	*.example.com:5000           images of hosts with exactly one part before example.com, on that port
//
// The most specific name comes first, but all that match are tried in turn.
package credentials
