package impersonation

import (
	"fmt"
	"net/http"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/authn"
)

const headerPrefix = "Impersonate-"

// Wanted returns who the caller wants to be, nil when it wants to be itself, and takes the headers away: nothing behind it
// should tell. Groups are those named, nothing is added. The error is a BadRequest Status.
func Wanted(h http.Header) (*authn.User, error) {
	if !asked(h) {
		return nil, nil
	}
	wanted := &authn.User{
		Name:   h.Get(authenticationv1.ImpersonateUserHeader),
		UID:    h.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: h[authenticationv1.ImpersonateGroupHeader],
	}
	more := wanted.UID != "" || len(wanted.Groups) > 0
	for name, values := range h {
		if !strings.HasPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix) {
			continue
		}
		more = true
		if wanted.Extra == nil {
			wanted.Extra = map[string][]string{}
		}
		key := authn.ExtraKey(name[len(authenticationv1.ImpersonateUserExtraHeaderPrefix):])
		wanted.Extra[key] = append(wanted.Extra[key], values...)
	}
	if wanted.Name == "" {
		if more {
			return nil, apierrors.NewBadRequest(fmt.Sprintf(
				"requested &user.DefaultInfo{Name:%#v, UID:%#v, Groups:%#v, Extra:%#v} without impersonating a user name",
				wanted.Name, wanted.UID, wanted.Groups, wanted.Extra))
		}
		return nil, nil
	}
	for name := range h {
		if strings.HasPrefix(name, headerPrefix) {
			delete(h, name)
		}
	}
	return wanted, nil
}

// asked says whether any of the headers is there. It is asked for every request.
func asked(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, headerPrefix) {
			return true
		}
	}
	return false
}
