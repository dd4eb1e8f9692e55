package serviceaccount

import (
	"crypto/sha256"
	"sync"
	"sync/atomic"

	"github.com/go-jose/go-jose/v4/jwt"

	"vigil/apiserver/authn"
)

// verified is a token whose signature and issuer are good: those never change. Its times, its audiences and what it is bound to
// are looked at for each request.
type verified struct {
	public jwt.Claims
	claims kubernetesClaims
	user   *authn.User // shared by all requests
	legacy *legacy     // of a token out of a Secret, which has nothing of the following; else nil

	// seen are the versions of what the token is bound to that were found good, in the order of bound. A version is checked once.
	seen [4]atomic.Value
}

// version wraps an identity, since an atomic.Value holds one type only.
type version struct{ is any }

// verifiedHalf is how many tokens each half of the memory holds: a token of 1 KB costs some 2 KB here.
const verifiedHalf = 4096

// memory keeps verified tokens, by digest: who reads it cannot use them. It has two halves. When the young one is full it becomes
// the old one, and what is still in use moves back.
type memory struct {
	mu         sync.RWMutex
	young, old map[[sha256.Size]byte]*verified
}

func (m *memory) get(key [sha256.Size]byte) *verified {
	m.mu.RLock()
	v, aged := m.young[key], false
	if v == nil {
		v = m.old[key]
		aged = v != nil
	}
	m.mu.RUnlock()
	if aged {
		m.put(key, v)
	}
	return v
}

func (m *memory) put(key [sha256.Size]byte, v *verified) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.young == nil || len(m.young) >= verifiedHalf {
		m.young, m.old = make(map[[sha256.Size]byte]*verified), m.young
	}
	m.young[key] = v
}
