package main

import (
	"time"

	"github.com/spf13/pflag"

	"vigil/cluster"
	"vigil/cluster/componentserver"
)

// addAccess adds the flags of who may ask a component, with the names that upstream's delegating options have.
func addAccess(flags *pflag.FlagSet, a *componentserver.Access) {
	flags.StringVar(&a.AuthenticationKubeconfig, "authentication-kubeconfig", "", "API server that knows tokens and the cluster's authorities; without it only --client-ca-file and front proxies count")
	flags.BoolVar(&a.SkipLookup, "authentication-skip-lookup", false, "do not look up the cluster's authorities")
	flags.BoolVar(&a.TolerateLookupFailure, "authentication-tolerate-lookup-failure", false, "start although the cluster's authorities cannot be looked up")
	flags.DurationVar(&a.TokenTTL, "authentication-token-webhook-cache-ttl", componentserver.DefaultTTL, "how long it is remembered whose a token is")
	flags.StringVar(&a.ClientCAFile, "client-ca-file", "", "CAs of client certificates, PEM (default: those that the cluster publishes)")
	p := &a.Proxy
	flags.StringVar(&p.CAFile, "requestheader-client-ca-file", "", "CAs of front proxies, which name in headers on whose behalf they ask")
	flags.StringSliceVar(&p.AllowedNames, "requestheader-allowed-names", nil, "common names of front proxies; empty: all certificates of their CA")
	flags.StringSliceVar(&p.UsernameHeaders, "requestheader-username-headers", []string{"x-remote-user"}, "headers of the user name, the first that is set counts")
	flags.StringSliceVar(&p.UIDHeaders, "requestheader-uid-headers", nil, "headers of the UID; usually X-Remote-Uid")
	flags.StringSliceVar(&p.GroupHeaders, "requestheader-group-headers", []string{"x-remote-group"}, "headers of groups")
	flags.StringSliceVar(&p.ExtraPrefixes, "requestheader-extra-headers-prefix", []string{"x-remote-extra-"}, "prefixes of headers of extra values")

	flags.StringVar(&a.AuthorizationKubeconfig, "authorization-kubeconfig", "", "API server that says who may; without it only members of system:masters may")
	flags.StringSliceVar(&a.AlwaysAllowPaths, "authorization-always-allow-paths", []string{"/healthz", "/readyz", "/livez"}, "paths for everybody; one that ends in * stands for all that begin so")
	flags.DurationVar(&a.AllowedTTL, "authorization-webhook-cache-authorized-ttl", componentserver.DefaultTTL, "how long an allowance is remembered")
	flags.DurationVar(&a.RefusedTTL, "authorization-webhook-cache-unauthorized-ttl", componentserver.DefaultTTL, "how long a refusal is remembered")
}

// addElection adds the flags of who of several works. name is the Lease's.
func addElection(flags *pflag.FlagSet, e *cluster.Election, name string) {
	flags.BoolVar(&e.LeaderElect, "leader-elect", true, "work only while holding a Lease")
	flags.DurationVar(&e.LeaseDuration, "leader-elect-lease-duration", 15*time.Second, "how long others wait after a renewal of the Lease before one of them takes it")
	flags.DurationVar(&e.RenewDeadline, "leader-elect-renew-deadline", 10*time.Second, "how long the leader tries to renew before it gives up")
	flags.DurationVar(&e.RetryPeriod, "leader-elect-retry-period", 2*time.Second, "how long lies between two tries")
	flags.StringVar(&e.Namespace, "leader-elect-resource-namespace", "kube-system", "namespace of the Lease")
	flags.StringVar(&e.Name, "leader-elect-resource-name", name, "name of the Lease")
}
