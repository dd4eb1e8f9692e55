package clusterroleaggregation_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/controllers/clusterroleaggregation"
	"vigil/controllers/internal/controllertest"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

// role makes a cluster role that is part of one, made of another, and has a rule for each resource.
func role(name, partOf, madeOf string, resources ...string) *rbacv1.ClusterRole {
	r := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if partOf != "" {
		r.Labels = map[string]string{"part-of": partOf}
	}
	if madeOf != "" {
		r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"part-of": madeOf}}}}
	}
	for _, resource := range resources {
		r.Rules = append(r.Rules, rbacv1.PolicyRule{Verbs: []string{"get"}, APIGroups: []string{""}, Resources: []string{resource}})
	}
	return r
}

// TestAggregation follows the rules of two roles, one part of the other, through the life of what they are made of.
func TestAggregation(t *testing.T) {
	env := controllertest.Start(t)
	env.Run(clusterroleaggregation.New(clusterroleaggregation.Config{Client: env.Client, Informers: env.Informers, Logger: env.Logger}).Run)
	roles := env.Client.RbacV1().ClusterRoles()
	create := func(r *rbacv1.ClusterRole) {
		t.Helper()
		if _, err := roles.Create(t.Context(), r, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	has := func(name, want string) {
		t.Helper()
		env.Eventually(func(ctx context.Context) error {
			r, err := roles.Get(ctx, name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			var got []string
			for _, rule := range r.Rules {
				got = append(got, rule.Resources...)
			}
			if strings.Join(got, " ") != want {
				return fmt.Errorf("role %s has %v, want %s", name, got, want)
			}
			return nil
		})
	}
	create(role("admin", "", "admin"))
	create(role("edit", "admin", "edit", "nonsense")) // which nobody has put into a part
	create(role("part-b", "edit", "", "pods", "services"))
	create(role("part-a", "edit", "", "services", "secrets"))
	create(role("extra", "admin", "", "roles"))
	has("edit", "services secrets pods")
	has("admin", "services secrets pods roles")

	part, err := roles.Get(t.Context(), "part-a", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	part.Rules = part.Rules[1:]
	if _, err := roles.Update(t.Context(), part, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	has("admin", "secrets pods services roles")
	if err := roles.Delete(t.Context(), "part-b", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	has("edit", "secrets")
	has("admin", "secrets roles")
}
