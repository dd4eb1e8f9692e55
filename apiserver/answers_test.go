package apiserver_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver"
	"vigil/apiserver/componentstatus"
	"vigil/kinds"
)

func TestComponentStatuses(t *testing.T) {
	components := []componentstatus.Component{
		{Name: "scheduler", Ask: func(context.Context) (string, error) { return "ok", nil }},
		{Name: "etcd-0", Ask: func(context.Context) (string, error) { return "", errors.New("gone") }},
		componentstatus.Port("nobody", 1),
	}
	_, c, typed := start(t, func(c *apiserver.Config) {
		c.Answers = map[schema.GroupVersionKind]apiserver.Answer{corev1.SchemeGroupVersion.WithKind("ComponentStatus"): func(ctx context.Context, _, _ string) []kinds.Object {
			return componentstatus.Ask(ctx, components)
		}}
	})
	r := c.get("/api/v1/componentstatuses")
	const first = `{"kind":"ComponentStatusList","apiVersion":"v1","metadata":{},"items":[{"metadata":{"name":"scheduler"},"conditions":[{"type":"Healthy","status":"True","message":"ok"}]},` +
		`{"metadata":{"name":"etcd-0"},"conditions":[{"type":"Healthy","status":"False","message":"gone"}]}`
	if !strings.HasPrefix(string(r.body), first) || r.header.Get("Warning") != `299 - "v1 ComponentStatus is deprecated in v1.19+"` {
		t.Errorf("list: %v %s", r.header, r.body)
	}
	one, err := typed.CoreV1().ComponentStatuses().Get(t.Context(), "nobody", metav1.GetOptions{})
	if err != nil || one.Kind != "ComponentStatus" && one.Kind != "" || one.Conditions[0].Status != corev1.ConditionFalse || !strings.Contains(one.Conditions[0].Message, "connection refused") {
		t.Errorf("get: %+v, %v", one, err)
	}
	list, err := typed.CoreV1().ComponentStatuses().List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=etcd-0"})
	if err != nil || len(list.Items) != 1 || list.Items[0].Name != "etcd-0" {
		t.Errorf("selected: %+v, %v", list, err)
	}
	var table metav1.Table
	c.get("/api/v1/componentstatuses", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1").into(&table)
	if len(table.Rows) != 3 || table.Rows[1].Cells[1] != "Unhealthy" || table.Rows[1].Cells[2] != "gone" {
		t.Errorf("table: %+v", table)
	}
	if r := c.get("/api/v1/componentstatuses/x"); r.code != http.StatusNotFound {
		t.Errorf("unknown: got %d %s", r.code, r.body)
	}
	if r := c.do("POST", "/api/v1/componentstatuses", "{}"); r.code != http.StatusMethodNotAllowed || r.status().Message != "the server does not allow this method on the requested resource" {
		t.Errorf("create: got %d %s", r.code, r.body)
	}
	if r := c.get("/api/v1/componentstatuses?watch=true"); r.code != http.StatusMethodNotAllowed || r.status().Message != `watch is not supported on resources of kind "componentstatuses"` {
		t.Errorf("watch: got %d %s", r.code, r.body)
	}
}
