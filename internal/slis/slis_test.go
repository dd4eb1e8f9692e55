package slis

import (
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestMetrics(t *testing.T) {
	(*Metrics)(nil).Observe("ping", "healthz", nil)
	m := New()
	m.Observe("ping", "healthz", nil)
	m.Observe("etcd", "readyz", nil)
	m.Observe("etcd", "readyz", errors.New("gone"))
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", Path, nil))
	for _, want := range []string{
		`kubernetes_healthcheck{name="ping",type="healthz"} 1`,
		`kubernetes_healthcheck{name="etcd",type="readyz"} 0`,
		`kubernetes_healthchecks_total{name="ping",status="success",type="healthz"} 1`,
		`kubernetes_healthchecks_total{name="etcd",status="success",type="readyz"} 1`,
		`kubernetes_healthchecks_total{name="etcd",status="error",type="readyz"} 1`,
	} {
		if !strings.Contains(answer.Body.String(), want+"\n") {
			t.Errorf("%s is missing: %s", want, answer.Body)
		}
	}
}
