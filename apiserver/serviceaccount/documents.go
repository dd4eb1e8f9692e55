package serviceaccount

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	jose "github.com/go-jose/go-jose/v4"

	"vigil/internal/accounttoken"
)

// Paths of the documents.
const (
	ConfigPath = "/.well-known/openid-configuration"
	KeysPath   = "/openid/v1/jwks"
)

// Documents are the two of OpenID Connect Discovery that let others check tokens: who issues them, and with which keys.
type Documents struct {
	config []byte // nil when the issuer is no https URL, as OpenID demands
	keys   []byte
}

func newDocuments(c *Config, keys []accounttoken.PublicKey) (*Documents, error) {
	var set jose.JSONWebKeySet
	var algs []string
	for _, k := range keys {
		alg, err := accounttoken.Algorithm(k.Key)
		if err != nil {
			return nil, err
		}
		set.Keys = append(set.Keys, jose.JSONWebKey{Algorithm: string(alg), Key: k.Key, KeyID: k.ID, Use: "sig"})
		algs = append(algs, string(alg))
	}
	slices.Sort(algs)
	var d Documents
	var err error
	if d.keys, err = json.Marshal(&set); err != nil {
		return nil, fmt.Errorf("encode keys: %w", err)
	}
	issuer, err := url.Parse(c.Issuers[0])
	if err != nil || issuer.Scheme != "https" || issuer.RawQuery != "" || issuer.Fragment != "" {
		return &d, nil
	}
	at := c.JWKSURI
	if at == "" {
		at = (&url.URL{Scheme: "https", Host: c.ExternalAddress, Path: KeysPath}).String()
	}
	d.config, err = json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		JWKSURI       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{c.Issuers[0], at, []string{"id_token"}, []string{"public"}, slices.Compact(algs)})
	return &d, err
}

// ServeHTTP serves both.
func (d *Documents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, contentType := d.config, "application/json"
	if r.URL.Path == KeysPath {
		body, contentType = d.keys, "application/jwk-set+json"
	}
	if body == nil {
		http.NotFound(w, r)
		return
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Cache-Control", "public, max-age=3600")
	// A failed write means that the client is gone.
	_, _ = w.Write(body)
}
