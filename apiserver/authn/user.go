package authn

import (
	"slices"
	"strings"
)

// User is a verified identity: what a certificate or token says about who is calling.
type User struct {
	Name   string
	UID    string
	Groups []string
	Extra  map[string][]string

	// Notice warns of a credential that its owner should replace; nil for none.
	Notice *Notice
}

// Notice warns of a credential that its owner should replace. Each answer to the caller carries Warning unless it is empty; the audit event carries
// the annotation.
type Notice struct {
	Warning              string
	AuditKey, AuditValue string
}

// InGroup says whether the user is a member of group.
func (u *User) InGroup(group string) bool { return slices.Contains(u.Groups, group) }

// Names that the API fixes.
const (
	// GroupMasters may do everything; authorization never refuses it.
	GroupMasters = "system:masters"
	// GroupNodes holds the kubelets, each named system:node:<node name>.
	GroupNodes = "system:nodes"
	// GroupAuthenticated is added to every user with credentials.
	GroupAuthenticated = "system:authenticated"
	// GroupUnauthenticated is the group of callers without credentials.
	GroupUnauthenticated = "system:unauthenticated"
	// NameAnonymous is the name of callers without credentials.
	NameAnonymous = "system:anonymous"
)

// Anonymous returns the user of a request without credentials.
func Anonymous() *User {
	return &User{Name: NameAnonymous, Groups: []string{GroupUnauthenticated}}
}

// Kind names the sort of user for metrics: admin, component, node or user.
func (u *User) Kind() string {
	switch {
	case u.InGroup(GroupMasters):
		return "admin"
	case strings.HasPrefix(u.Name, "system:node:"):
		return "node"
	case strings.HasPrefix(u.Name, "system:"):
		return "component"
	default:
		return "user"
	}
}
