package chain_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/authz/chain"
	"vigil/apiserver/authz/escalation"
	"vigil/apiserver/authz/node"
	"vigil/apiserver/authz/rbac"
	"vigil/watchcache"
)

// start starts a server that decides by a chain; roles are those that the test makes.
func start(t *testing.T, config chain.Config) (*apiservertest.Server, *chain.Chain) {
	t.Helper()
	c, err := chain.New(config)
	if err != nil {
		t.Fatal(err)
	}
	s := apiservertest.Prepare(t, func(config *apiserver.Config) {
		config.Authorizer = c
		config.WriteHooks = escalation.Hooks(escalation.Config{Authorizer: c, Held: c.RBAC().PolicyRules, Role: c.RoleRules})
	})
	cache := func(group, resource string) *watchcache.Cache {
		return s.Cache(s.Table.ByResource(schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}))
	}
	c.Attach(rbac.Caches{
		Roles: cache(rbacv1.GroupName, "roles"), ClusterRoles: cache(rbacv1.GroupName, "clusterroles"),
		RoleBindings: cache(rbacv1.GroupName, "rolebindings"), ClusterRoleBindings: cache(rbacv1.GroupName, "clusterrolebindings"),
	}, node.Caches{
		Pods: cache("", "pods"), PersistentVolumeClaims: cache("", "persistentvolumeclaims"), PersistentVolumes: cache("", "persistentvolumes"),
		VolumeAttachments: cache("storage.k8s.io", "volumeattachments"), Prefix: s.Store.Prefix(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("chain: %v", err)
		}
	})
	s.Begin()
	if err := c.Seeded(ctx, nil); err != nil {
		t.Fatal(err)
	}
	return s, c
}

func TestNew_Wrong(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, tc := range []struct {
		config chain.Config
		want   string
	}{
		{chain.Config{Modes: []string{}}, "at least one authorization-mode must be passed"},
		{chain.Config{Modes: []string{"RBAC", "Magic"}}, `authorization-mode "Magic" is not a valid mode`},
		{chain.Config{Modes: []string{"RBAC", "RBAC"}}, `authorization-mode ["RBAC" "RBAC"] has mode specified more than once`},
		{chain.Config{Modes: []string{"ABAC"}}, "authorization-mode ABAC's authorization policy file not passed"},
		{chain.Config{PolicyFile: "x"}, "cannot specify --authorization-policy-file without mode ABAC"},
		{chain.Config{Modes: []string{"Webhook"}}, "authorization-mode Webhook's authorization config file not passed"},
		{chain.Config{WebhookFile: "x"}, "cannot specify --authorization-webhook-config-file without mode Webhook"},
		{chain.Config{File: "x", Modes: []string{"RBAC"}}, "--authorization-config can not be specified when"},
		{chain.Config{File: filepath.Join(dir, "none")}, "read authorization configuration"},
		{chain.Config{File: file("empty", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n")}, "authorizers: Required value: at least one authorization mode must be defined"},
		{chain.Config{File: file("type", "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: Magic, name: x}]\n")}, `authorizers[0].type: Unsupported value: "Magic"`},
		{chain.Config{File: file("kind", "apiVersion: v1\nkind: Pod\n")}, `no kind "Pod" is registered`},
	} {
		if _, err := chain.New(tc.config); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: got %v, want %s", tc.config, err, tc.want)
		}
	}
}

// Before there are roles everybody but administrators waits, and anybody may ask how the server is.
func TestChain_NotReady(t *testing.T) {
	c, err := chain.New(chain.Config{})
	if err != nil {
		t.Fatal(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	ask := func(groups, verb, resource, path string) (bool, error) {
		allowed, _, err := c.Authorize(over, &authz.Attributes{User: &authn.User{Name: "x", Groups: strings.Fields(groups)}, Verb: verb, Resource: resource, Path: path})
		return allowed, err
	}
	if allowed, err := ask("system:masters", "list", "pods", ""); !allowed || err != nil {
		t.Errorf("an administrator: got %t %v", allowed, err)
	}
	if allowed, err := ask("system:unauthenticated", "get", "", "/readyz"); !allowed || err != nil {
		t.Errorf("a probe: got %t %v", allowed, err)
	}
	for _, path := range []string{"/metrics", "/readyz/etcd"} {
		if allowed, err := ask("", "get", "", path); allowed || !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %t %v", path, allowed, err)
		}
	}
	if allowed, err := ask("", "list", "pods", ""); allowed || !errors.Is(err, context.Canceled) {
		t.Errorf("a user: got %t %v", allowed, err)
	}
}

func TestChain_Modes(t *testing.T) {
	policies := filepath.Join(t.TempDir(), "policies")
	if err := os.WriteFile(policies, []byte(`{"user":"joe","namespace":"web","resource":"pods"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	joe := &authn.User{Name: "joe", Groups: []string{authn.GroupAuthenticated}}
	attr := func(namespace string) *authz.Attributes {
		return &authz.Attributes{User: joe, Verb: "list", Resource: "pods", Namespace: namespace}
	}
	for _, tc := range []struct {
		config    chain.Config
		namespace string
		allowed   bool
		reason    string
	}{
		{chain.Config{Modes: []string{"AlwaysAllow"}}, "x", true, ""},
		{chain.Config{Modes: []string{"AlwaysDeny"}}, "x", false, "alwaysdeny: Everything is forbidden."},
		{chain.Config{Modes: []string{"AlwaysDeny", "AlwaysAllow"}}, "x", true, ""},
		{chain.Config{Modes: []string{"ABAC"}, PolicyFile: policies}, "web", true, ""},
		{chain.Config{Modes: []string{"AlwaysDeny", "ABAC"}, PolicyFile: policies}, "x", false, "alwaysdeny: Everything is forbidden.\nabac: No policy matched."},
	} {
		c, err := chain.New(tc.config)
		if err != nil {
			t.Fatal(err)
		}
		if allowed, reason, err := c.Authorize(t.Context(), attr(tc.namespace)); allowed != tc.allowed || reason != tc.reason || err != nil {
			t.Errorf("%v: got %t %q %v", tc.config.Modes, allowed, reason, err)
		}
	}
}

func clientOf(t *testing.T, s *apiservertest.Server, name string, groups ...string) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(s.Client(name, groups...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func rule(verbs, group, resources string) rbacv1.PolicyRule {
	return rbacv1.PolicyRule{Verbs: strings.Fields(verbs), APIGroups: []string{group}, Resources: strings.Fields(resources)}
}

// message is the text of a refusal; "" when there was none.
func message(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	if !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err) {
		t.Errorf("got %v, which is no refusal", err)
	}
	return err.Error()
}

// TestEscalation: nobody gives out what he does not hold, by any verb, unless he may escalate or bind.
func TestEscalation(t *testing.T) {
	s, c := start(t, chain.Config{Modes: []string{"RBAC"}})
	admin := s.Clientset().RbacV1()
	ctx := t.Context()
	must := func(_ any, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	subject := func(name string) []rbacv1.Subject {
		return []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: name}}
	}
	give := func(user string, rules ...rbacv1.PolicyRule) {
		t.Helper()
		must(admin.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "of-" + user}, Rules: rules}, metav1.CreateOptions{}))
		must(admin.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "of-" + user}, Subjects: subject(user),
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "of-" + user}}, metav1.CreateOptions{}))
		if err := c.RBAC().WaitBound(ctx, names("of-"+user)); err != nil {
			t.Fatal(err)
		}
	}
	everyRole := rule("get list create update patch delete", rbacv1.GroupName, "roles clusterroles rolebindings clusterrolebindings")
	give("joe", everyRole, rule("get list", "", "pods"))
	give("escalator", everyRole, rule("escalate", rbacv1.GroupName, "roles clusterroles"))
	give("binder", everyRole, rbacv1.PolicyRule{Verbs: []string{"bind"}, APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"}, ResourceNames: []string{"strong"}})
	must(admin.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "strong"}, Rules: []rbacv1.PolicyRule{rule("*", "", "secrets")}}, metav1.CreateOptions{}))
	must(admin.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "weak"}, Rules: []rbacv1.PolicyRule{rule("get", "", "pods")}}, metav1.CreateOptions{}))
	must(s.Clientset().CoreV1().Namespaces().Create(ctx, namespace("n"), metav1.CreateOptions{}))

	joe := clientOf(t, s, "joe", "devs").RbacV1()
	const lacks = `user "joe" (groups=["devs" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:` + "\n"
	role := func(rules ...rbacv1.PolicyRule) *rbacv1.Role {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Rules: rules}
	}
	_, err := joe.Roles("n").Create(ctx, role(rule("get list watch", "", "pods secrets")), metav1.CreateOptions{})
	want := `roles.rbac.authorization.k8s.io "r" is forbidden: ` + lacks + `{APIGroups:[""], Resources:["pods"], Verbs:["watch"]}` + "\n" +
		`{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch"]}`
	if got := message(t, err); got != want {
		t.Errorf("create: got %s\nwant %s", got, want)
	}
	must(joe.Roles("n").Create(ctx, role(rule("get", "", "pods")), metav1.CreateOptions{}))
	_, err = joe.Roles("n").Update(ctx, role(rule("get delete", "", "pods")), metav1.UpdateOptions{})
	if got := message(t, err); got != `roles.rbac.authorization.k8s.io "r" is forbidden: `+lacks+`{APIGroups:[""], Resources:["pods"], Verbs:["delete"]}` {
		t.Errorf("update: got %s", got)
	}
	_, err = joe.Roles("n").Patch(ctx, "r", "application/merge-patch+json", []byte(`{"rules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"]}]}`), metav1.PatchOptions{})
	if got := message(t, err); got != `roles.rbac.authorization.k8s.io "r" is forbidden: `+lacks+`{APIGroups:["*"], Resources:["*"], Verbs:["*"]}` {
		t.Errorf("patch: got %s", got)
	}
	forced := metav1.PatchOptions{FieldManager: "x", Force: new(true)}
	_, err = joe.ClusterRoles().Patch(ctx, "weak", "application/apply-patch+yaml",
		[]byte(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"weak"},"rules":[{"verbs":["get"],"nonResourceURLs":["/x"]}]}`), forced)
	if got := message(t, err); got != `clusterroles.rbac.authorization.k8s.io "weak" is forbidden: `+lacks+`{NonResourceURLs:["/x"], Verbs:["get"]}` {
		t.Errorf("apply: got %s", got)
	}
	// What the garbage collector needs is possible with a role that grants more.
	must(joe.ClusterRoles().Patch(ctx, "strong", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":["example.com/x"]}}`), metav1.PatchOptions{}))
	must(joe.ClusterRoles().Patch(ctx, "strong", "application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}))
	_, err = joe.ClusterRoles().Patch(ctx, "strong", "application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`), metav1.PatchOptions{})
	if got := message(t, err); !strings.Contains(got, `{APIGroups:[""], Resources:["secrets"], Verbs:["*"]}`) {
		t.Errorf("label of a strong role: got %s", got)
	}
	aggregated := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all"}, AggregationRule: &rbacv1.AggregationRule{
		ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}},
	}}
	_, err = joe.ClusterRoles().Create(ctx, aggregated, metav1.CreateOptions{})
	if got := message(t, err); got != `clusterroles.rbac.authorization.k8s.io "all" is forbidden: must have cluster-admin privileges to use the aggregationRule` {
		t.Errorf("aggregation: got %s", got)
	}

	bind := func(name, kind, to string) *rbacv1.RoleBinding {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, Subjects: subject("joe"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: to}}
	}
	_, err = joe.RoleBindings("n").Create(ctx, bind("b", "ClusterRole", "strong"), metav1.CreateOptions{})
	if got := message(t, err); got != `rolebindings.rbac.authorization.k8s.io "b" is forbidden: `+lacks+`{APIGroups:[""], Resources:["secrets"], Verbs:["*"]}` {
		t.Errorf("bind: got %s", got)
	}
	_, err = joe.RoleBindings("n").Create(ctx, bind("b", "Role", "none"), metav1.CreateOptions{})
	if got := message(t, err); got != `roles.rbac.authorization.k8s.io "none" not found` {
		t.Errorf("bind to a role that is not there: got %s", got)
	}
	must(joe.RoleBindings("n").Create(ctx, bind("b", "ClusterRole", "weak"), metav1.CreateOptions{}))
	must(joe.RoleBindings("n").Create(ctx, bind("own", "Role", "r"), metav1.CreateOptions{}))
	_, err = joe.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Subjects: subject("joe"),
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "strong"}}, metav1.CreateOptions{})
	if got := message(t, err); !strings.HasPrefix(got, `clusterrolebindings.rbac.authorization.k8s.io "b" is forbidden: `+lacks) {
		t.Errorf("bind in the cluster: got %s", got)
	}

	must(clientOf(t, s, "escalator").RbacV1().Roles("n").Create(ctx, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "e"}, Rules: []rbacv1.PolicyRule{rule("*", "*", "*")}}, metav1.CreateOptions{}))
	binder := clientOf(t, s, "binder").RbacV1()
	must(binder.RoleBindings("n").Create(ctx, bind("strong", "ClusterRole", "strong"), metav1.CreateOptions{}))
	_, err = binder.RoleBindings("n").Create(ctx, bind("e", "Role", "e"), metav1.CreateOptions{})
	if got := message(t, err); !strings.Contains(got, `{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`) {
		t.Errorf("bind of a role that one may not bind: got %s", got)
	}
}
