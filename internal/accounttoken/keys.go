package accounttoken

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"

	jose "github.com/go-jose/go-jose/v4"
)

// Algorithms are the signature algorithms of tokens: RSA keys sign with the first, elliptic ones by their curve.
var Algorithms = []jose.SignatureAlgorithm{jose.RS256, jose.ES256, jose.ES384, jose.ES512}

// PublicKey is one key that tokens are checked with.
type PublicKey struct {
	ID  string // of the header "kid"
	Key crypto.PublicKey
}

// KeyID derives the name of a key from it, in a way that does not give the key away (upstream's keyIDFromPublicKey).
func KeyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encode public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// Algorithm is how tokens are signed with the private half of key.
func Algorithm(key crypto.PublicKey) (jose.SignatureAlgorithm, error) {
	switch key := key.(type) {
	case *rsa.PublicKey:
		return jose.RS256, nil
	case *ecdsa.PublicKey:
		switch key.Curve {
		case elliptic.P256():
			return jose.ES256, nil
		case elliptic.P384():
			return jose.ES384, nil
		case elliptic.P521():
			return jose.ES512, nil
		}
		return "", errors.New("unknown private key curve, must be 256, 384, or 521")
	}
	return "", fmt.Errorf("a %T does not sign tokens, must be an RSA or an elliptic curve key", key)
}

// ReadPrivateKey reads the first private key of a PEM file: PKCS #1, SEC 1 or PKCS #8.
func ReadPrivateKey(file string) (crypto.Signer, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if key := privateKey(block); key != nil {
			return key, nil
		}
	}
	return nil, fmt.Errorf("%s: no RSA or elliptic curve private key in it", file)
}

func privateKey(block *pem.Block) crypto.Signer {
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	case "PRIVATE KEY":
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if signer, ok := key.(crypto.Signer); ok && err == nil {
		return signer
	}
	return nil
}

// ReadPublicKeys reads all public keys of a PEM file: keys, certificates, and private keys for their public half.
func ReadPublicKeys(file string) ([]crypto.PublicKey, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var keys []crypto.PublicKey
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if private := privateKey(block); private != nil {
			keys = append(keys, private.Public())
			continue
		}
		switch block.Type {
		case "PUBLIC KEY":
			if key, err := x509.ParsePKIXPublicKey(block.Bytes); err == nil {
				keys = append(keys, key)
			}
		case "RSA PUBLIC KEY":
			if key, err := x509.ParsePKCS1PublicKey(block.Bytes); err == nil {
				keys = append(keys, key)
			}
		case "CERTIFICATE":
			if cert, err := x509.ParseCertificate(block.Bytes); err == nil {
				keys = append(keys, cert.PublicKey)
			}
		}
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s: no public key in it", file)
	}
	return keys, nil
}

// Identify names keys and leaves out repetitions.
func Identify(keys []crypto.PublicKey) ([]PublicKey, error) {
	var out []PublicKey
	seen := map[string]bool{}
	for _, key := range keys {
		id, err := KeyID(key)
		if err != nil {
			return nil, err
		}
		if _, err := Algorithm(key); err != nil {
			return nil, err
		}
		if !seen[id] {
			seen[id] = true
			out = append(out, PublicKey{id, key})
		}
	}
	return out, nil
}

// NewSigner makes what signs tokens with a key and names it in them.
func NewSigner(key crypto.Signer) (jose.Signer, error) {
	alg, err := Algorithm(key.Public())
	if err != nil {
		return nil, err
	}
	id, err := KeyID(key.Public())
	if err != nil {
		return nil, err
	}
	signer, err := jose.NewSigner(jose.SigningKey{
		Algorithm: alg,
		Key:       &jose.JSONWebKey{Algorithm: string(alg), Key: key, KeyID: id, Use: "sig"},
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("make signer: %w", err)
	}
	return signer, nil
}
