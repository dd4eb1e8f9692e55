package read

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// token is the content of a continue token: the version that the list is read at and the first key of the next page.
// On the wire it is the unpadded URL-safe base64 of its JSON.
type token struct {
	Version  string `json:"v"` // tokenVersion
	Revision int64  `json:"rv"`
	// Start is a key relative to the listed prefix, behind the last key of the page before: that key and a zero byte.
	Start string `json:"start"`
}

const tokenVersion = "meta.k8s.io/v1"

// newest is the revision of a token that continues at whatever is current: an inconsistent list.
const newest = -1

func (t token) encode() string {
	t.Version = tokenVersion
	b, err := json.Marshal(t)
	if err != nil {
		panic(err) // strings and a number
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// decodeToken reads a continue parameter. The error is a 400.
func decodeToken(s string) (token, error) {
	t, err := parseToken(s)
	if err != nil {
		return token{}, apierrors.NewBadRequest("invalid continue token: continue key is not valid: " + err.Error())
	}
	return t, nil
}

func parseToken(s string) (token, error) {
	var t token
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil {
		return t, err
	}
	if err := json.Unmarshal(b, &t); err != nil {
		return t, err
	}
	switch {
	case t.Version != tokenVersion:
		return t, fmt.Errorf("server does not recognize this encoded version %s", t.Version)
	case t.Revision == 0:
		return t, fmt.Errorf("incorrect encoded start resourceVersion (version %s)", tokenVersion)
	case t.Start == "":
		return t, fmt.Errorf("encoded start key empty (version %s)", tokenVersion)
	}
	// A clean path cannot leave the listed prefix.
	start := "/" + strings.TrimPrefix(t.Start, "/")
	if path.Clean(start) != start {
		return t, fmt.Errorf("%s", t.Start)
	}
	t.Start = start[1:]
	return t, nil
}
