package pki

import (
	"crypto/sha256"
	"crypto/x509"
	"errors"
	"runtime"
	"sync"
	"weak"
)

// pools are the authorities in use in this process, by the digest of their PEM: the clients of a thousand nodes share one pool.
var pools sync.Map // [sha256.Size]byte to weak.Pointer[x509.CertPool]

// sharedPool returns the certificates in PEM data as a pool that is shared and never changes.
func sharedPool(data []byte) (*x509.CertPool, error) {
	digest := sha256.Sum256(data)
	if have, ok := pools.Load(digest); ok {
		if pool := have.(weak.Pointer[x509.CertPool]).Value(); pool != nil {
			return pool, nil
		}
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(data) {
		return nil, errors.New("no certificate authority in it")
	}
	entry := weak.Make(pool)
	pools.Store(digest, entry)
	runtime.AddCleanup(pool, func(entry weak.Pointer[x509.CertPool]) { pools.CompareAndDelete(digest, entry) }, entry)
	return pool, nil
}
