package apiserver_test

import (
	"bufio"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/apiserver"
	"vigil/internal/panics"
	"vigil/kinds"
)

// mineConfigMaps makes the rows and the deletion of ConfigMaps named mine panic.
func mineConfigMaps(c *apiserver.Config) {
	all := c.Kinds.All()
	k := all[slices.IndexFunc(all, func(k *kinds.Kind) bool { return k.GroupResource().String() == "configmaps" })]
	row := k.Row
	k.Row = func(obj kinds.Object, now time.Time) []any {
		if obj.GetName() == "mine" {
			panic("planted in a row")
		}
		return row(obj, now)
	}
	k.Graceful = func(obj kinds.Object, _ *metav1.DeleteOptions) (int64, bool) {
		if obj.GetName() == "mine" {
			panic("planted in a deletion")
		}
		return 0, false
	}
}

// TestPanics: a watch that panics ends alone, and so do the deletions of a collection, which have goroutines of their own.
func TestPanics(t *testing.T) {
	_, c, client := start(t, mineConfigMaps)
	make := func(name string) {
		t.Helper()
		if _, err := client.CoreV1().ConfigMaps("default").Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	requests := panics.Count(panics.Request)
	const path = "/api/v1/namespaces/default/configmaps"
	tables := c.open(t.Context(), http.MethodGet, path+"?watch=true", "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io")
	defer tables.Body.Close()
	plain := c.open(t.Context(), http.MethodGet, path+"?watch=true", "")
	defer plain.Body.Close()
	fromPlain := bufio.NewScanner(plain.Body)
	expect := func(name string) {
		t.Helper()
		if !fromPlain.Scan() || !strings.Contains(fromPlain.Text(), `"name":"`+name+`"`) {
			t.Fatalf("the other watch has %q, want %s: %v", fromPlain.Text(), name, fromPlain.Err())
		}
	}
	make("mine")
	for lines := bufio.NewScanner(tables.Body); lines.Scan(); {
		t.Errorf("the watch that panics got %s", lines.Text())
	}
	expect("mine")
	make("other")
	expect("other")
	if r := c.do(http.MethodDelete, path, ""); r.code != http.StatusInternalServerError || r.status().Reason != metav1.StatusReasonInternalError {
		t.Errorf("a deletion that panics: %d %s", r.code, r.body)
	}
	if n := panics.Count(panics.Request) - requests; n != 2 {
		t.Errorf("%d panics were counted, want 2", n)
	}
	if r := c.get("/readyz?verbose"); r.code != http.StatusOK || !strings.Contains(string(r.body), "\n[!]panics recovered: ") || !strings.HasSuffix(string(r.body), "\nreadyz check passed\n") {
		t.Errorf("readiness: %d %s", r.code, r.body)
	}
	if r := c.get("/readyz/panics"); r.code != http.StatusOK || !strings.HasPrefix(string(r.body), "recovered: ") {
		t.Errorf("the check alone: %d %s", r.code, r.body)
	}
}
