package rbac

import (
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/kinds/kindtest"
)

type (
	role           = kindtest.Case[rbacv1.Role]
	clusterRole    = kindtest.Case[rbacv1.ClusterRole]
	binding        = kindtest.Case[rbacv1.RoleBinding]
	clusterBinding = kindtest.Case[rbacv1.ClusterRoleBinding]
)

var readPods = rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{"pods"}}

func TestRole_Minimal(t *testing.T) {
	const minimal = `{metadata: {namespace: default, name: "a:b"}}`
	kindtest.Minimal(t, Role(), minimal, minimal)
}

func TestRole_Create(t *testing.T) {
	good := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}, Rules: []rbacv1.PolicyRule{readPods}}
	kindtest.Create(t, Role(), good,
		role{
			Name: "name", Edit: func(r *rbacv1.Role) { r.Name = "a/b" },
			Want: []string{`metadata.name: Invalid value: "a/b": may not contain '/'`},
		},
		role{
			Name: "empty rule", Edit: func(r *rbacv1.Role) { r.Rules[0] = rbacv1.PolicyRule{} },
			Want: []string{
				"rules[0].verbs: Required value: verbs must contain at least one value",
				"rules[0].apiGroups: Required value: resource rules must supply at least one api group",
				"rules[0].resources: Required value: resource rules must supply at least one resource",
			},
		},
		role{
			Name: "paths", Edit: func(r *rbacv1.Role) { r.Rules[0].NonResourceURLs = []string{"/x"} },
			Want: []string{
				`rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs`,
				`rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs`,
			},
		},
	)
	kindtest.Update(t, Role(), good,
		role{Name: "rule", Edit: func(r *rbacv1.Role) { r.Rules = append(r.Rules, readPods) }},
		role{
			Name: "no verb", Edit: func(r *rbacv1.Role) { r.Rules[0].Verbs = nil },
			Want: []string{"rules[0].verbs: Required value: verbs must contain at least one value"},
		},
	)
}

func TestClusterRole_Minimal(t *testing.T) {
	const minimal = `{metadata: {name: "system:x"}, rules: [{verbs: [get], nonResourceURLs: [/healthz]}]}`
	kindtest.Minimal(t, ClusterRole(), minimal, minimal)
}

func TestClusterRole_Create(t *testing.T) {
	good := &rbacv1.ClusterRole{
		ObjectMeta:      metav1.ObjectMeta{Name: "x"},
		Rules:           []rbacv1.PolicyRule{readPods},
		AggregationRule: &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"a": "b"}}}},
	}
	badValue := metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "In", Values: []string{"b c"}}}}
	kindtest.Create(t, ClusterRole(), good,
		clusterRole{
			Name: "paths and resources", Edit: func(r *rbacv1.ClusterRole) { r.Rules[0].NonResourceURLs = []string{"/x"} },
			Want: []string{`rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs`},
		},
		clusterRole{
			Name: "no selector", Edit: func(r *rbacv1.ClusterRole) { r.AggregationRule.ClusterRoleSelectors = nil },
			Want: []string{"aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil"},
		},
		clusterRole{
			Name: "operator", Edit: func(r *rbacv1.ClusterRole) {
				r.AggregationRule.ClusterRoleSelectors[0] = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "x"}}}
			},
			Want: []string{
				`aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: "x": not a valid selector operator`,
				`aggregationRule.clusterRoleSelectors[0]: Invalid value: {"matchExpressions":[{"key":"a","operator":"x"}]}: invalid label selector.`,
			},
		},
	)
	kindtest.Update(t, ClusterRole(), good, clusterRole{
		Name: "new selector", Edit: func(r *rbacv1.ClusterRole) { r.AggregationRule.ClusterRoleSelectors[0] = badValue },
		Want: []string{
			`aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values[0]: Invalid value: "b c": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')`,
			`aggregationRule.clusterRoleSelectors[0]: Invalid value: {"matchExpressions":[{"key":"a","operator":"In","values":["b c"]}]}: invalid label selector.`,
		},
	})
	old := good.DeepCopy()
	old.AggregationRule.ClusterRoleSelectors[0] = badValue
	kindtest.Update(t, ClusterRole(), old,
		clusterRole{
			Name: "old selector", Edit: func(r *rbacv1.ClusterRole) { r.Labels = map[string]string{"a": "b"} },
			Want: []string{`aggregationRule.clusterRoleSelectors[0]: Invalid value: {"matchExpressions":[{"key":"a","operator":"In","values":["b c"]}]}: invalid label selector.`},
		},
		clusterRole{Name: "no aggregation", Edit: func(r *rbacv1.ClusterRole) { r.AggregationRule = nil }},
	)
}

func TestRoleBinding_Minimal(t *testing.T) {
	kindtest.Minimal(t, RoleBinding(),
		`{metadata: {namespace: default, name: x}, roleRef: {kind: Role, name: y}, subjects: [{kind: User, name: u}, {kind: Group, name: g}, {kind: ServiceAccount, name: s}]}`,
		`{metadata: {namespace: default, name: x}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: y}, subjects: [
			{kind: User, name: u, apiGroup: rbac.authorization.k8s.io}, {kind: Group, name: g, apiGroup: rbac.authorization.k8s.io}, {kind: ServiceAccount, name: s}]}`)
}

func goodBinding() *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "y"},
		Subjects: []rbacv1.Subject{
			{Kind: "User", Name: "u", APIGroup: rbacv1.GroupName}, {Kind: "User", Name: "v", APIGroup: rbacv1.GroupName},
			{Kind: "Group", Name: "g", APIGroup: rbacv1.GroupName}, {Kind: "ServiceAccount", Name: "s", Namespace: "ns"},
		},
	}
}

func TestRoleBinding_Create(t *testing.T) {
	subject := func(s rbacv1.Subject) func(*rbacv1.RoleBinding) {
		return func(b *rbacv1.RoleBinding) { b.Subjects = []rbacv1.Subject{s} }
	}
	kindtest.Create(t, RoleBinding(), goodBinding(),
		binding{
			Name: "role", Edit: func(b *rbacv1.RoleBinding) { b.RoleRef = rbacv1.RoleRef{APIGroup: "x", Kind: "X"} },
			Want: []string{
				`roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"`,
				`roleRef.kind: Unsupported value: "X": supported values: "Role", "ClusterRole"`,
				`roleRef.name: Required value`,
			},
		},
		binding{
			Name: "name of the role", Edit: func(b *rbacv1.RoleBinding) { b.RoleRef.Name = ".." },
			Want: []string{`roleRef.name: Invalid value: "..": may not be '..'`},
		},
		binding{
			Name: "kind of subject", Edit: subject(rbacv1.Subject{Kind: "X", Name: "x"}),
			Want: []string{`subjects[0].kind: Unsupported value: "X": supported values: "ServiceAccount", "User", "Group"`},
		},
		binding{
			Name: "user", Edit: subject(rbacv1.Subject{Kind: "User", APIGroup: "x"}),
			Want: []string{
				`subjects[0].name: Required value`,
				`subjects[0].name: Invalid value: "": user name cannot be empty`,
				`subjects[0].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"`,
			},
		},
		binding{
			Name: "group", Edit: subject(rbacv1.Subject{Kind: "Group"}),
			Want: []string{`subjects[0].name: Required value`, `subjects[0].name: Invalid value: "": group name cannot be empty`},
		},
		binding{
			Name: "service account", Edit: subject(rbacv1.Subject{Kind: "ServiceAccount", Name: "A", APIGroup: "x"}),
			Want: []string{
				`subjects[0].name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')`,
				`subjects[0].apiGroup: Unsupported value: "x": supported values: ""`,
			},
		},
	)
}

func TestRoleBinding_Update(t *testing.T) {
	kindtest.Update(t, RoleBinding(), goodBinding(),
		binding{Name: "subjects", Edit: func(b *rbacv1.RoleBinding) { b.Subjects = nil }},
		binding{
			Name: "role", Edit: func(b *rbacv1.RoleBinding) { b.RoleRef.Name = "z" },
			Want: []string{`roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"z"}: cannot change roleRef`},
		},
	)
}

func TestRoleBinding_Row(t *testing.T) {
	kindtest.Row(t, RoleBinding(), goodBinding(), time.Now(), "x", "Role/y", "<unknown>", "u, v", "g", "ns/s")
}

func TestClusterRoleBinding(t *testing.T) {
	kindtest.Minimal(t, ClusterRoleBinding(),
		`{metadata: {name: x}, roleRef: {kind: ClusterRole, name: y}}`,
		`{metadata: {name: x}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: y}}`)
	good := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "x"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "y"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Name: "s", Namespace: "ns"}},
	}
	kindtest.Create(t, ClusterRoleBinding(), good,
		clusterBinding{
			Name: "role of a namespace", Edit: func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Kind = "Role" },
			Want: []string{`roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"`},
		},
		clusterBinding{
			Name: "account without namespace", Edit: func(b *rbacv1.ClusterRoleBinding) { b.Subjects[0].Namespace = "" },
			Want: []string{`subjects[0].namespace: Required value`},
		},
	)
	kindtest.Update(t, ClusterRoleBinding(), good, clusterBinding{
		Name: "role", Edit: func(b *rbacv1.ClusterRoleBinding) { b.RoleRef.Name = "z" },
		Want: []string{`roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"z"}: cannot change roleRef`},
	})
	kindtest.Row(t, ClusterRoleBinding(), good, time.Now(), "x", "ClusterRole/y", "<unknown>", "", "", "ns/s")
}
