package serviceaccount_test

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/controllers/internal/controllertest"
	"vigil/controllers/serviceaccount"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

func TestServiceAccount(t *testing.T) {
	env := controllertest.Start(t)
	const ca = "-----BEGIN CERTIFICATE-----\nroot\n-----END CERTIFICATE-----\n"
	c := serviceaccount.New(serviceaccount.Config{Client: env.Client, Informers: env.Informers, RootCA: []byte(ca), Logger: env.Logger})
	env.Run(c.Run)
	core := env.Client.CoreV1()
	complete := func(namespace string) func(context.Context) error {
		return func(ctx context.Context) error {
			account, err := core.ServiceAccounts(namespace).Get(ctx, "default", metav1.GetOptions{})
			if err != nil || account.DeletionTimestamp != nil {
				return fmt.Errorf("account in %s: %v", namespace, err)
			}
			cm, err := core.ConfigMaps(namespace).Get(ctx, "kube-root-ca.crt", metav1.GetOptions{})
			if err != nil {
				return fmt.Errorf("config map in %s: %v", namespace, err)
			}
			if len(cm.Data) != 1 || cm.Data["ca.crt"] != ca || cm.Annotations["kubernetes.io/description"] == "" {
				return fmt.Errorf("config map in %s: data %v, annotations %v", namespace, cm.Data, cm.Annotations)
			}
			return nil
		}
	}
	env.Eventually(complete("default"))
	env.Namespace("later")
	env.Eventually(complete("later"))

	account, err := core.ServiceAccounts("later").Get(t.Context(), "default", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := core.ServiceAccounts("later").Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(func(ctx context.Context) error {
		again, err := core.ServiceAccounts("later").Get(ctx, "default", metav1.GetOptions{})
		if err != nil || again.UID == account.UID {
			return fmt.Errorf("not made again: %v", err)
		}
		return nil
	})
	if err := core.ConfigMaps("later").Delete(t.Context(), "kube-root-ca.crt", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(complete("later"))
	cm, err := core.ConfigMaps("later").Get(t.Context(), "kube-root-ca.crt", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cm.Data = map[string]string{"ca.crt": "spoilt", "more": "x"}
	if _, err := core.ConfigMaps("later").Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Eventually(complete("later"))

	// In a namespace that is going nothing is made again.
	if err := core.Namespaces().Delete(t.Context(), "later", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := core.ServiceAccounts("later").Delete(t.Context(), "default", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	env.Namespace("last")
	env.Eventually(complete("last"))
	if _, err := core.ServiceAccounts("later").Get(t.Context(), "default", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("the account in a terminating namespace: %v, want not found", err)
	}
}
