package serviceaccount

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/internal/accounttoken"
	"vigil/kinds"
)

// Config says how tokens are made and checked. The names are those of kube-apiserver's flags.
type Config struct {
	// SigningKeyFile signs (--service-account-signing-key-file). Without it no tokens are issued.
	SigningKeyFile string
	// KeyFiles hold the keys that tokens are checked with (--service-account-key-file). By default the signing key's
	// public half.
	KeyFiles []string
	// Issuers are who tokens may come from; the first is who they are issued by (--service-account-issuer). Default
	// "https://kubernetes.default.svc.cluster.local".
	Issuers []string
	// Audiences are the names of this server (--api-audiences). By default Issuers.
	Audiences []string
	// MaxExpiration bounds the life of tokens (--service-account-max-token-expiration). 0: no bound.
	MaxExpiration time.Duration
	// NoExtension makes the tokens of pods end when they say (--service-account-extend-token-expiration=false). Else
	// those that kubelets ask for by default live a year, and their use after the hour they say is counted.
	NoExtension bool
	// JWKSURI is where the keys are found from outside (--service-account-jwks-uri). By default at ExternalAddress.
	JWKSURI string
	// ExternalAddress is host and port of this server as others see it.
	ExternalAddress string

	// Objects finds what tokens are bound to.
	Objects Objects
	// LastUsed is told of Secrets whose token is used on a day (in the form of accounttoken.DateFormat) that they do not name yet.
	// It writes that into them, and says whether it could. Nil: nobody does.
	LastUsed func(ctx context.Context, secret *corev1.Secret, day string) bool
	// Registerer has the metrics; nil: nobody.
	Registerer prometheus.Registerer
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// Objects finds stored objects.
type Objects interface {
	// Find returns an object of the core group. It looks behind its cache before it says that there is none, which is a
	// NotFound Status.
	Find(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error)
	// Newest identifies the version that Find would return now: equal values are the same version. Nil: that is not known.
	Newest(resource schema.GroupResource, namespace, name string) any
}

// DefaultIssuer is the issuer when none is given: the name of the API server inside the cluster, as kubeadm sets it.
const DefaultIssuer = "https://kubernetes.default.svc.cluster.local"

// Tokens is all of it for one server.
type Tokens struct {
	Issuer    *Issuer // nil when there is no key to sign with
	Verifier  *Verifier
	Documents *Documents
}

// New reads the keys.
func New(c Config) (*Tokens, error) {
	if c.Objects == nil {
		return nil, errors.New("service account tokens: no objects")
	}
	if len(c.Issuers) == 0 {
		c.Issuers = []string{DefaultIssuer}
	}
	if len(c.Audiences) == 0 {
		c.Audiences = c.Issuers
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	var signer crypto.Signer
	var public []crypto.PublicKey
	var err error
	if c.SigningKeyFile != "" {
		if signer, err = accounttoken.ReadPrivateKey(c.SigningKeyFile); err != nil {
			return nil, fmt.Errorf("read key that signs service account tokens: %w", err)
		}
	}
	for _, file := range c.KeyFiles {
		keys, err := accounttoken.ReadPublicKeys(file)
		if err != nil {
			return nil, fmt.Errorf("read key of service account tokens: %w", err)
		}
		public = append(public, keys...)
	}
	if len(c.KeyFiles) == 0 && signer != nil {
		public = append(public, signer.Public())
	}
	keys, err := accounttoken.Identify(public)
	if err != nil {
		return nil, fmt.Errorf("service account tokens: %w", err)
	}
	t := &Tokens{Verifier: newVerifier(&c, keys)}
	if signer != nil {
		if t.Issuer, err = newIssuer(&c, signer); err != nil {
			return nil, fmt.Errorf("service account tokens: %w", err)
		}
	}
	if len(keys) > 0 {
		if t.Documents, err = newDocuments(&c, keys); err != nil {
			return nil, fmt.Errorf("service account tokens: %w", err)
		}
	}
	return t, nil
}
