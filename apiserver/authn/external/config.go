package external

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	authenticationcel "k8s.io/apiserver/pkg/authentication/cel"
	"k8s.io/apiserver/plugin/pkg/authenticator/token/oidc"
)

// Config says who is asked about tokens. The names are those of kube-apiserver's flags.
type Config struct {
	OIDC OIDC // --oidc-*
	// File is an AuthenticationConfiguration (--authentication-config), read again when it changes. Excludes OIDC.
	File string

	WebhookFile     string        // --authentication-token-webhook-config-file, a kubeconfig
	WebhookVersion  string        // --authentication-token-webhook-version: v1beta1, the default, or v1
	WebhookCacheTTL time.Duration // --authentication-token-webhook-cache-ttl; 0: 2 minutes

	// Audiences are the names of this server, Issuers those of service account tokens: nobody else may use them.
	Audiences, Issuers []string
	// Anonymous hears what File says about requests without credentials. Nil: nobody wants to know.
	Anonymous func(enabled bool, paths []string)
	Logger    *slog.Logger
}

// OIDC is one issuer of ID tokens, as flags describe it.
type OIDC struct {
	IssuerURL      string            // --oidc-issuer-url; "": none
	ClientID       string            // --oidc-client-id
	CAFile         string            // --oidc-ca-file
	UsernameClaim  string            // --oidc-username-claim; "": sub
	UsernamePrefix string            // --oidc-username-prefix; "": the issuer's URL and #, except for claim email. "-": none
	GroupsClaim    string            // --oidc-groups-claim
	GroupsPrefix   string            // --oidc-groups-prefix
	SigningAlgs    []string          // --oidc-signing-algs; nil: RS256
	RequiredClaims map[string]string // --oidc-required-claim
}

// Enabled says whether anybody is asked about tokens, or File says something.
func (c *Config) Enabled() bool {
	return c.OIDC.IssuerURL != "" || c.OIDC.ClientID != "" || c.File != "" || c.WebhookFile != ""
}

// issuers is one version of who issues tokens.
type issuers struct {
	config *apiserver.AuthenticationConfiguration
	algs   []string
}

// load reads what flags or data, the content of File, say about issuers.
func (c *Config) load(data []byte) (*issuers, error) {
	var loaded issuers
	var err error
	switch {
	case c.File != "":
		loaded.algs = oidc.AllValidSigningAlgorithms()
		loaded.config, err = decode(data)
	case c.OIDC.IssuerURL != "":
		loaded.algs = c.OIDC.SigningAlgs
		loaded.config, err = c.OIDC.authentication()
	default:
		return &issuers{config: &apiserver.AuthenticationConfiguration{}}, nil
	}
	if err != nil {
		return nil, err
	}
	return &loaded, validation.ValidateAuthenticationConfiguration(authenticationcel.NewDefaultCompiler(), loaded.config, c.Issuers).ToAggregate()
}

// check finds contradictions.
func (c *Config) check() error {
	switch {
	case c.File != "" && (c.OIDC.IssuerURL != "" || c.OIDC.ClientID != ""):
		return errors.New("authentication-config file and oidc-* flags are mutually exclusive")
	case (c.OIDC.IssuerURL == "") != (c.OIDC.ClientID == ""):
		return errors.New("oidc-issuer-url and oidc-client-id must be specified together when any oidc-* flags are set")
	}
	return nil
}

func decode(data []byte) (*apiserver.AuthenticationConfiguration, error) {
	if len(data) == 0 {
		return nil, errors.New("empty config data")
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	codecs := serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	obj, err := runtime.Decode(codecs.UniversalDecoder(), data)
	if err != nil {
		return nil, err
	}
	config, ok := obj.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("expected AuthenticationConfiguration, got %T", obj)
	}
	return config, nil
}

// authentication says with an AuthenticationConfiguration what the flags say.
func (o *OIDC) authentication() (*apiserver.AuthenticationConfiguration, error) {
	claim, prefix := o.UsernameClaim, o.UsernamePrefix
	if claim == "" {
		claim = "sub"
	}
	switch {
	case prefix == "-":
		prefix = ""
	case prefix == "" && claim != "email":
		prefix = o.IssuerURL + "#"
	}
	jwt := apiserver.JWTAuthenticator{
		Issuer:        apiserver.Issuer{URL: o.IssuerURL, Audiences: []string{o.ClientID}},
		ClaimMappings: apiserver.ClaimMappings{Username: apiserver.PrefixedClaimOrExpression{Claim: claim, Prefix: &prefix}},
	}
	if o.GroupsClaim != "" {
		jwt.ClaimMappings.Groups = apiserver.PrefixedClaimOrExpression{Claim: o.GroupsClaim, Prefix: &o.GroupsPrefix}
	}
	if o.CAFile != "" {
		data, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read CA of OpenID Connect issuer: %w", err)
		}
		jwt.Issuer.CertificateAuthority = string(data)
	}
	for claim, value := range o.RequiredClaims {
		jwt.ClaimValidationRules = append(jwt.ClaimValidationRules, apiserver.ClaimValidationRule{Claim: claim, RequiredValue: value})
	}
	slices.SortFunc(jwt.ClaimValidationRules, func(a, b apiserver.ClaimValidationRule) int {
		if a.Claim < b.Claim {
			return -1
		}
		return 1
	})
	return &apiserver.AuthenticationConfiguration{JWT: []apiserver.JWTAuthenticator{jwt}}, nil
}

// anonymous tells what a version says about requests without credentials. When it says nothing the flags stay in force.
func (c *Config) anonymous(v *issuers) {
	if c.Anonymous == nil || v.config.Anonymous == nil {
		return
	}
	var paths []string
	for _, condition := range v.config.Anonymous.Conditions {
		paths = append(paths, condition.Path)
	}
	c.Anonymous(v.config.Anonymous.Enabled, paths)
}
