package impersonation

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/validate/content"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
)

// Check returns who the caller of the request attr is from now on, and by which constraint ("impersonate:user-info", "" for
// the old way). The error is a Forbidden Status that names the first thing it may not, as upstream's.
func Check(ctx context.Context, authorizer authz.Authorizer, attr *authz.Attributes, wanted *authn.User) (user *authn.User, constraint string, err error) {
	for _, m := range modes {
		if !m.applies(wanted, attr.User) {
			continue
		}
		c := check{authorizer: authorizer, mode: m, requestor: attr.User}
		user, err2 := c.run(ctx, attr, wanted)
		if err2 == nil {
			if m.name != "" {
				constraint = c.verb()
			}
			return user, constraint, nil
		}
		if err == nil {
			err = err2
		}
	}
	return nil, "", err
}

// mode is one way of being allowed.
type mode struct {
	name    string // "" is the old way
	applies func(wanted, requestor *authn.User) bool
}

// modes in the order in which they are tried.
var modes = []mode{
	{"associated-node", func(wanted, requestor *authn.User) bool {
		node, ok := nodeName(wanted.Name)
		return ok && onlyNamed(wanted) && ownNode(requestor) == node
	}},
	{"arbitrary-node", func(wanted, _ *authn.User) bool {
		_, ok := nodeName(wanted.Name)
		return ok && onlyNamed(wanted)
	}},
	{"serviceaccount", func(wanted, _ *authn.User) bool {
		_, _, ok := serviceAccount(wanted.Name)
		return ok && onlyNamed(wanted)
	}},
	{"user-info", func(wanted, _ *authn.User) bool {
		_, node := nodeName(wanted.Name)
		_, _, account := serviceAccount(wanted.Name)
		return !node && !account
	}},
	{"", func(_, _ *authn.User) bool { return true }},
}

// check is one attempt.
type check struct {
	authorizer authz.Authorizer
	mode       mode
	requestor  *authn.User
}

func (c *check) verb() string {
	if c.mode.name == "" {
		return "impersonate"
	}
	return "impersonate:" + c.mode.name
}

func (c *check) run(ctx context.Context, attr *authz.Attributes, wanted *authn.User) (*authn.User, error) {
	if c.mode.name == "associated-node" {
		c.requestor = withoutNode(c.requestor)
	}
	if c.mode.name != "" {
		on := *attr
		on.User, on.Verb = c.requestor, "impersonate-on:"+c.mode.name+":"+attr.Verb
		if err := c.ask(ctx, &on); err != nil {
			return nil, err
		}
	}
	user := &authn.User{Name: wanted.Name, UID: wanted.UID, Groups: wanted.Groups, Extra: wanted.Extra}
	for _, step := range []func(context.Context, *authn.User, *authn.User) error{c.name, c.uid, c.groups, c.extra} {
		if err := step(ctx, wanted, user); err != nil {
			return nil, err
		}
	}
	switch {
	case user.Name == authn.NameAnonymous:
		user.Groups = with(user.Groups, authn.GroupUnauthenticated)
	case !slices.Contains(user.Groups, authn.GroupUnauthenticated):
		user.Groups = with(user.Groups, authn.GroupAuthenticated)
	}
	return user, nil
}

// attributes are those of a question about a part of the user.
func (c *check) attributes(resource, name string) *authz.Attributes {
	a := &authz.Attributes{User: c.requestor, Verb: c.verb(), Version: "v1", Resource: resource, Name: name}
	old := c.mode.name == ""
	if !old || resource == "uids" || resource == "userextras" {
		a.Group = "authentication.k8s.io"
	}
	return a
}

func (c *check) name(ctx context.Context, wanted, user *authn.User) error {
	attr := c.attributes("users", wanted.Name)
	if node, ok := nodeName(wanted.Name); ok && c.mode.name != "" {
		attr.Resource, attr.Name = "nodes", node
		if c.mode.name == "associated-node" {
			attr.Name = "*" // who may be its own node may be so on every node
		}
		user.Groups = []string{authn.GroupNodes}
	}
	if namespace, name, ok := serviceAccount(wanted.Name); ok {
		attr.Resource, attr.Namespace, attr.Name = "serviceaccounts", namespace, name
		if len(wanted.Groups) == 0 {
			user.Groups = []string{"system:serviceaccounts", "system:serviceaccounts:" + namespace}
		}
	}
	return c.ask(ctx, attr)
}

func (c *check) uid(ctx context.Context, wanted, _ *authn.User) error {
	if wanted.UID == "" {
		return nil
	}
	return c.ask(ctx, c.attributes("uids", wanted.UID))
}

// many is how many values make it worth asking first for all that there could be.
const many = 4

func (c *check) groups(ctx context.Context, wanted, _ *authn.User) error {
	attr := c.attributes("groups", "")
	if c.mode.name != "" {
		if slices.Contains(wanted.Groups, "") {
			return authz.Forbidden(attr, "impersonating the empty string group is not allowed")
		}
		if slices.Contains(wanted.Groups, authn.GroupMasters) {
			attr.Name = authn.GroupMasters
			return authz.Forbidden(attr, "impersonating the system:masters group is not allowed")
		}
		if len(wanted.Groups) >= many {
			attr.Name = "*"
			if c.ask(ctx, attr) == nil {
				return nil
			}
		}
	}
	for _, group := range wanted.Groups {
		attr.Name = group
		if err := c.ask(ctx, attr); err != nil {
			return err
		}
	}
	return nil
}

func (c *check) extra(ctx context.Context, wanted, _ *authn.User) error {
	if len(wanted.Extra) == 0 {
		return nil
	}
	attr := c.attributes("userextras", "")
	if c.mode.name != "" {
		if err := validExtra(wanted.Extra); err != nil {
			return authz.Forbidden(attr, err.Error())
		}
		values := 0
		for _, v := range wanted.Extra {
			values += len(v)
		}
		if values >= many {
			attr.Subresource, attr.Name = "*", "*"
			if c.ask(ctx, attr) == nil {
				return nil
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wanted.Extra)) {
		attr.Subresource = key
		for _, value := range wanted.Extra[key] {
			attr.Name = value
			if err := c.ask(ctx, attr); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *check) ask(ctx context.Context, attr *authz.Attributes) error {
	allowed, reason, err := c.authorizer.Authorize(ctx, attr)
	switch {
	case allowed:
		return nil
	case apierrors.IsForbidden(err):
		return err
	case err != nil && reason != "":
		reason = err.Error() + ": " + reason
	case err != nil:
		reason = err.Error()
	}
	return authz.Forbidden(attr, reason)
}

func validExtra(extra map[string][]string) error {
	for _, key := range slices.Sorted(maps.Keys(extra)) {
		values := extra[key]
		if key == "" {
			return errors.New("impersonating the empty string key in extra is not allowed")
		}
		if err := utilvalidation.IsDomainPrefixedPath(field.NewPath("extra", "key"), key).ToAggregate(); err != nil {
			return fmt.Errorf("impersonating an invalid key in extra is not allowed: %w", err)
		}
		if key != strings.ToLower(key) {
			return fmt.Errorf("impersonating a non-lowercase key in extra is not allowed: %q", key)
		}
		if len(values) == 0 {
			return errors.New("impersonating empty values in extra is not allowed")
		}
		if slices.Contains(values, "") {
			return errors.New("impersonating the empty string value in extra is not allowed")
		}
	}
	return nil
}

// with returns groups and group, in a slice of its own.
func with(groups []string, group string) []string {
	if slices.Contains(groups, group) {
		return groups
	}
	return append(slices.Clip(groups), group)
}

// onlyNamed says whether nothing but a name is wanted.
func onlyNamed(wanted *authn.User) bool {
	return wanted.UID == "" && len(wanted.Groups) == 0 && len(wanted.Extra) == 0
}

// nodeName is the node that a user name stands for.
func nodeName(user string) (string, bool) {
	name, ok := strings.CutPrefix(user, "system:node:")
	return name, ok && len(content.IsDNS1123Subdomain(name)) == 0
}

// serviceAccount is the service account that a user name stands for.
func serviceAccount(user string) (namespace, name string, ok bool) {
	rest, ok := strings.CutPrefix(user, "system:serviceaccount:")
	if !ok {
		return "", "", false
	}
	namespace, name, ok = strings.Cut(rest, ":")
	ok = ok && len(content.IsDNS1123Label(namespace)) == 0 && len(content.IsDNS1123Subdomain(name)) == 0
	return namespace, name, ok
}

const (
	extraNodeName = "authentication.kubernetes.io/node-name"
	extraNodeKeys = "authentication.kubernetes.io/associated-node-keys"
)

// ownNode is the node of the pod that a service account speaks from, "" when it is not known.
func ownNode(requestor *authn.User) string {
	if _, _, ok := serviceAccount(requestor.Name); !ok {
		return ""
	}
	if names := requestor.Extra[extraNodeName]; len(names) == 1 {
		return names[0]
	}
	return ""
}

// withoutNode is a requestor as the authorizer sees it that is asked about its own node: a rule has to hold for all nodes, so
// it is told the keys of the extra values only.
func withoutNode(u *authn.User) *authn.User {
	out := *u
	out.Extra = map[string][]string{extraNodeKeys: slices.Sorted(maps.Keys(u.Extra))}
	return &out
}
