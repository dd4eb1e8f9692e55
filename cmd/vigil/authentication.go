package main

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"vigil/cluster"
)

// authenticationFlags are the flags that say who gets in, with kube-apiserver's names.
type authenticationFlags struct {
	given        cluster.Authentication
	anonymous    bool
	webhookTTL   time.Duration
	oidcRequired map[string]string
	flags        *pflag.FlagSet
}

func (f *authenticationFlags) add(flags *pflag.FlagSet) {
	f.flags = flags
	a := &f.given
	flags.BoolVar(&f.anonymous, "anonymous-auth", true, "let requests without credentials in, as user system:anonymous")
	flags.StringVar(&a.TokenFile, "token-auth-file", "", "CSV file of static tokens: token, user, UID, groups")
	flags.BoolVar(&a.BootstrapTokens, "enable-bootstrap-token-auth", false, "let in whoever shows a bootstrap token (Secrets kube-system/bootstrap-token-*)")

	p := &a.Proxy
	flags.StringVar(&p.CAFile, "requestheader-client-ca-file", "", "CAs of front proxies, which name in headers on whose behalf they ask")
	flags.StringSliceVar(&p.AllowedNames, "requestheader-allowed-names", nil, "common names of front proxies; empty: all certificates of their CA")
	flags.StringSliceVar(&p.UsernameHeaders, "requestheader-username-headers", nil, "headers of the user name, the first that is set counts; usually X-Remote-User")
	flags.StringSliceVar(&p.UIDHeaders, "requestheader-uid-headers", nil, "headers of the UID; usually X-Remote-Uid")
	flags.StringSliceVar(&p.GroupHeaders, "requestheader-group-headers", nil, "headers of groups; usually X-Remote-Group")
	flags.StringSliceVar(&p.ExtraPrefixes, "requestheader-extra-headers-prefix", nil, "prefixes of headers of extra values; usually X-Remote-Extra-")

	o := &a.External.OIDC
	flags.StringVar(&o.IssuerURL, "oidc-issuer-url", "", "OpenID Connect issuer, https only")
	flags.StringVar(&o.ClientID, "oidc-client-id", "", "audience of the issuer's tokens")
	flags.StringVar(&o.CAFile, "oidc-ca-file", "", "CAs of the issuer (default: the host's)")
	flags.StringVar(&o.UsernameClaim, "oidc-username-claim", "sub", "claim that holds the user name")
	flags.StringVar(&o.UsernamePrefix, "oidc-username-prefix", "", "put before user names (default: the issuer's URL and #, unless the claim is email); - for nothing")
	flags.StringVar(&o.GroupsClaim, "oidc-groups-claim", "", "claim that holds the groups")
	flags.StringVar(&o.GroupsPrefix, "oidc-groups-prefix", "", "put before groups")
	flags.StringSliceVar(&o.SigningAlgs, "oidc-signing-algs", []string{"RS256"}, "signature algorithms that are accepted")
	flags.StringToStringVar(&f.oidcRequired, "oidc-required-claim", nil, "claim=value that tokens must have; may be repeated")

	e := &a.External
	flags.StringVar(&e.File, "authentication-config", "", "file with an AuthenticationConfiguration; excludes --oidc-*")
	flags.StringVar(&e.WebhookFile, "authentication-token-webhook-config-file", "", "kubeconfig of a webhook that is asked about tokens (TokenReview)")
	flags.StringVar(&e.WebhookVersion, "authentication-token-webhook-version", "v1beta1", "version of the TokenReviews sent: v1beta1 or v1")
	flags.DurationVar(&f.webhookTTL, "authentication-token-webhook-cache-ttl", 2*time.Minute, "how long the webhook's answers are kept")
}

// fill checks what was given and puts it into c.
func (f *authenticationFlags) fill(c *cluster.APIServerConfig) error {
	c.Authentication = f.given
	c.Authentication.NoAnonymous = !f.anonymous
	c.Authentication.External.OIDC.RequiredClaims = f.oidcRequired
	c.Authentication.External.WebhookCacheTTL = f.webhookTTL
	if f.given.External.File != "" {
		for _, name := range []string{"oidc-username-claim", "oidc-username-prefix", "oidc-groups-claim", "oidc-groups-prefix", "oidc-signing-algs", "oidc-required-claim", "oidc-ca-file"} {
			if f.flags.Changed(name) {
				return fmt.Errorf("--authentication-config excludes --%s", name)
			}
		}
	}
	return nil
}

// parseTLS reads --tls-min-version and --tls-cipher-suites.
func parseTLS(minVersion string, cipherSuites []string, version *uint16, suites *[]uint16) (err error) {
	if minVersion != "" {
		if *version, err = cliflag.TLSVersion(minVersion); err != nil {
			return fmt.Errorf("--tls-min-version: %w", err)
		}
		if minVersion == "VersionTLS10" || minVersion == "VersionTLS11" {
			return fmt.Errorf("--tls-min-version: %s is broken; VersionTLS12 and VersionTLS13 are possible", minVersion)
		}
	}
	if *suites, err = cliflag.TLSCipherSuites(cipherSuites); err != nil {
		return fmt.Errorf("--tls-cipher-suites: %w", err)
	}
	return nil
}
