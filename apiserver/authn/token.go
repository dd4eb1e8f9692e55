package authn

import (
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"
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

// webSocketPrefix begins the protocol by which a WebSocket carries a token, base64url-encoded.
const webSocketPrefix = "base64url.bearer.authorization.k8s.io."

// webSocketToken returns the token among the protocols of a WebSocket's request, and the protocols without it: there has to be
// another one, for clients give up when the server answers none of what they asked for. "" when there is no token.
func webSocketToken(r *http.Request) (token, rest string, err error) {
	headers := r.Header["Sec-Websocket-Protocol"]
	if len(headers) == 0 || !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		return "", "", nil
	}
	var others []string
	for _, header := range headers {
		for protocol := range strings.SplitSeq(header, ",") {
			protocol = strings.TrimSpace(protocol)
			encoded, is := strings.CutPrefix(protocol, webSocketPrefix)
			if !is {
				others = append(others, protocol)
				continue
			}
			if token != "" {
				return "", "", errors.New("multiple base64.bearer.authorization tokens specified")
			}
			data, err := base64.RawURLEncoding.DecodeString(encoded)
			switch {
			case err != nil || !utf8.Valid(data):
				return "", "", errors.New("invalid base64.bearer.authorization token encoding")
			case len(data) == 0:
				return "", "", errors.New("empty base64.bearer.authorization token")
			}
			token = string(data)
		}
	}
	if token != "" && len(others) == 0 {
		return "", "", errors.New("missing additional subprotocol")
	}
	return token, strings.Join(others, ","), nil
}

// anyAudience is what of the audiences asked for (nil: own) a token is good for that names none itself: those that the server
// goes by. Nil when there are none of them, and the token is none then.
func anyAudience(own, wanted []string) []string {
	if wanted == nil {
		return own
	}
	var good []string
	for _, a := range own {
		if slices.Contains(wanted, a) {
			good = append(good, a)
		}
	}
	return good
}
