package impersonation_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/google/go-cmp/cmp"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/impersonation"
)

// allowed are the questions that are answered with yes, as "VERB GROUP/RESOURCE[/SUBRESOURCE] NAMESPACE/NAME".
type allowed []string

func (a allowed) Authorize(_ context.Context, attr *authz.Attributes) (bool, string, error) {
	resource := attr.Group + "/" + attr.Resource
	if attr.Subresource != "" {
		resource += "/" + attr.Subresource
	}
	return slices.Contains(a, attr.Verb+" "+resource+" "+attr.Namespace+"/"+attr.Name), "", nil
}

func headers(pairs ...string) http.Header {
	h := http.Header{"Accept": {"x"}}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

func TestCheck(t *testing.T) {
	agent := &authn.User{
		Name: "system:serviceaccount:kube-system:agent", Groups: []string{"system:authenticated"},
		Extra: map[string][]string{"authentication.kubernetes.io/node-name": {"n1"}},
	}
	joe := &authn.User{Name: "joe"}
	const on, authentication = "list /pods ns/", "authentication.k8s.io"
	for _, tc := range []struct {
		name       string
		requestor  *authn.User
		headers    http.Header
		allowed    allowed
		want       *authn.User
		constraint string
		refused    string
	}{
		{"user", joe, headers("Impersonate-User", "ann"), allowed{"impersonate /users /ann"}, &authn.User{Name: "ann", Groups: []string{"system:authenticated"}}, "", ""},
		{
			"all of a user", joe, headers("Impersonate-User", "ann", "Impersonate-Group", "a", "Impersonate-Group", "b", "Impersonate-Uid", "7", "Impersonate-Extra-Example.com%2fScope", "s"),
			allowed{"impersonate /users /ann", "impersonate /groups /a", "impersonate /groups /b", "impersonate " + authentication + "/uids /7", "impersonate " + authentication + "/userextras/example.com/scope /s"},
			&authn.User{Name: "ann", UID: "7", Groups: []string{"a", "b", "system:authenticated"}, Extra: map[string][]string{"example.com/scope": {"s"}}}, "", "",
		},
		{
			"not the group", joe, headers("Impersonate-User", "ann", "Impersonate-Group", "b"),
			allowed{"impersonate-on:user-info:" + on, "impersonate:user-info " + authentication + "/users /ann"},
			nil, "", `groups.authentication.k8s.io "b" is forbidden: User "joe" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope`,
		},
		{
			"nothing", joe, headers("Impersonate-User", "ann"), nil, nil, "",
			`pods is forbidden: User "joe" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "ns"`,
		},
		{"anonymous", joe, headers("Impersonate-User", "system:anonymous"), allowed{"impersonate /users /system:anonymous"}, &authn.User{Name: "system:anonymous", Groups: []string{"system:unauthenticated"}}, "", ""},
		{
			"service account", joe, headers("Impersonate-User", "system:serviceaccount:ns:bot"), allowed{"impersonate /serviceaccounts ns/bot"},
			&authn.User{Name: "system:serviceaccount:ns:bot", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:ns", "system:authenticated"}}, "", "",
		},
		{
			"constrained to lists", joe, headers("Impersonate-User", "ann"), allowed{"impersonate-on:user-info:" + on, "impersonate:user-info " + authentication + "/users /ann"},
			&authn.User{Name: "ann", Groups: []string{"system:authenticated"}}, "impersonate:user-info", "",
		},
		{
			"constrained never to masters", joe, headers("Impersonate-User", "ann", "Impersonate-Group", "system:masters"),
			allowed{"impersonate-on:user-info:" + on, "impersonate:user-info " + authentication + "/users /ann", "impersonate:user-info " + authentication + "/groups /system:masters"},
			nil, "", `groups.authentication.k8s.io "system:masters" is forbidden: User "joe" cannot impersonate:user-info resource "groups" in API group "authentication.k8s.io" at the cluster scope: impersonating the system:masters group is not allowed`,
		},
		{
			"own node", agent, headers("Impersonate-User", "system:node:n1"),
			allowed{"impersonate-on:associated-node:" + on, "impersonate:associated-node " + authentication + "/nodes /*"},
			&authn.User{Name: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}}, "impersonate:associated-node", "",
		},
		{
			"another node", agent, headers("Impersonate-User", "system:node:n2"),
			allowed{"impersonate-on:associated-node:" + on, "impersonate:associated-node " + authentication + "/nodes /*"},
			nil, "", `pods is forbidden: User "system:serviceaccount:kube-system:agent" cannot impersonate-on:arbitrary-node:list resource "pods" in API group "" in the namespace "ns"`,
		},
		{
			"any node", joe, headers("Impersonate-User", "system:node:n2"),
			allowed{"impersonate-on:arbitrary-node:" + on, "impersonate:arbitrary-node " + authentication + "/nodes /n2"},
			&authn.User{Name: "system:node:n2", Groups: []string{"system:nodes", "system:authenticated"}}, "impersonate:arbitrary-node", "",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			wanted, err := impersonation.Wanted(tc.headers)
			if err != nil {
				t.Fatal(err)
			}
			for name := range tc.headers {
				if strings.HasPrefix(name, "Impersonate") {
					t.Errorf("header %s is left", name)
				}
			}
			got, constraint, err := impersonation.Check(t.Context(), tc.allowed, &authz.Attributes{User: tc.requestor, Verb: "list", Version: "v1", Resource: "pods", Namespace: "ns"}, wanted)
			if tc.want == nil {
				if !apierrors.IsForbidden(err) || err.Error() != tc.refused {
					t.Errorf("got %+v, %v\nwant %s", got, err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" || constraint != tc.constraint {
				t.Errorf("constraint %q, user (-want +got):\n%s", constraint, diff)
			}
		})
	}
}

func TestWanted(t *testing.T) {
	if wanted, err := impersonation.Wanted(headers()); wanted != nil || err != nil {
		t.Errorf("nobody is wanted: %v, %v", wanted, err)
	}
	_, err := impersonation.Wanted(headers("Impersonate-Group", "g"))
	want := `requested &user.DefaultInfo{Name:"", UID:"", Groups:[]string{"g"}, Extra:map[string][]string(nil)} without impersonating a user name`
	if !apierrors.IsBadRequest(err) || err.Error() != want {
		t.Errorf("got %v\nwant %s", err, want)
	}
}
