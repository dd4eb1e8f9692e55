package authn

import (
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"
)

// Proxy says which front proxies may name, in headers, the user on whose behalf they ask (--requestheader-*).
type Proxy struct {
	// CAFile holds the authorities of the proxies' client certificates (--requestheader-client-ca-file). "": there are no proxies.
	CAFile string
	// AllowedNames are the common names of proxies (--requestheader-allowed-names). Empty: all that CAFile has signed.
	AllowedNames []string
	// The headers: user name, UID and groups, the first that is there counts for name and UID; and the prefixes of extra
	// values (--requestheader-username-headers, -uid-headers, -group-headers, -extra-headers-prefix).
	UsernameHeaders, UIDHeaders, GroupHeaders, ExtraPrefixes []string
}

// canonical returns p with headers in the form that net/http has them.
func (p Proxy) canonical() Proxy {
	form := func(headers []string) []string {
		var out []string
		for _, h := range headers {
			if h = strings.TrimSpace(h); h != "" {
				out = append(out, textproto.CanonicalMIMEHeaderKey(h))
			}
		}
		return out
	}
	p.UsernameHeaders, p.UIDHeaders = form(p.UsernameHeaders), form(p.UIDHeaders)
	p.GroupHeaders, p.ExtraPrefixes = form(p.GroupHeaders), form(p.ExtraPrefixes)
	return p
}

func (p *Proxy) allows(commonName string) bool {
	return len(p.AllowedNames) == 0 || slices.Contains(p.AllowedNames, commonName)
}

// user is who the headers name, nil when they name nobody. The headers are gone afterwards.
func (p *Proxy) user(h http.Header) *User {
	first := func(headers []string) string {
		for _, name := range headers {
			if v := h.Get(name); v != "" {
				return v
			}
		}
		return ""
	}
	u := &User{Name: first(p.UsernameHeaders), UID: first(p.UIDHeaders)}
	if u.Name == "" {
		return nil
	}
	var groups []string
	for _, name := range p.GroupHeaders {
		for _, group := range h[name] {
			if group != "" {
				groups = append(groups, group)
			}
		}
	}
	u.Groups = WithAuthenticated(groups)
	u.Extra = extraValues(h, p.ExtraPrefixes)
	for _, names := range [][]string{p.UsernameHeaders, p.UIDHeaders, p.GroupHeaders} {
		for _, name := range names {
			delete(h, name)
		}
	}
	for _, prefix := range p.ExtraPrefixes {
		for name := range h {
			if strings.HasPrefix(name, prefix) {
				delete(h, name)
			}
		}
	}
	return u
}

// extraValues are the values of the headers with the prefixes, which are in canonical form. What follows the prefix is the key, in
// lower case and percent-encoded. Nil when there are none.
func extraValues(h http.Header, prefixes []string) map[string][]string {
	var extra map[string][]string
	for _, prefix := range prefixes {
		for name, values := range h {
			if !strings.HasPrefix(name, prefix) || len(values) == 0 {
				continue
			}
			if extra == nil {
				extra = map[string][]string{}
			}
			key := ExtraKey(name[len(prefix):])
			extra[key] = append(extra[key], values...)
		}
	}
	return extra
}

// ExtraKey is the key of an extra value that part of a header's name stands for: in lower case, with percent-encoding undone
// where that is possible.
func ExtraKey(encoded string) string {
	encoded = strings.ToLower(encoded)
	if key, err := url.PathUnescape(encoded); err == nil {
		return key
	}
	return encoded
}

// WithAuthenticated returns groups with GroupAuthenticated, unless they say already whether their user is.
func WithAuthenticated(groups []string) []string {
	if slices.Contains(groups, GroupAuthenticated) || slices.Contains(groups, GroupUnauthenticated) {
		return groups
	}
	return append(slices.Clip(groups), GroupAuthenticated)
}
