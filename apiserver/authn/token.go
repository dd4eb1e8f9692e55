package authn

import (
	"context"
	"errors"
	"net/http"
	"strings"
)

// ErrUnknownToken says that a token is not of the sort that an authenticator knows.
var ErrUnknownToken = errors.New("invalid bearer token")

// Token authenticates by a bearer token.
type Token interface {
	// AuthenticateToken returns who a token belongs to and for which of the given audiences (nil: those of this server) it
	// is meant. The error is ErrUnknownToken when somebody else may know the token, else it says what is wrong with it.
	AuthenticateToken(ctx context.Context, token string, audiences []string) (*User, []string, error)
}

// Bearer returns the bearer token of a request, "" when it has none (RFC 6750, section 2.1).
func Bearer(r *http.Request) string {
	header := r.Header["Authorization"]
	if len(header) == 0 {
		return ""
	}
	scheme, token, found := strings.Cut(strings.TrimSpace(header[0]), " ")
	if !found || !strings.EqualFold(scheme, "bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}
