package apiserver_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/apiservertest"
	"vigil/internal/eventually"
	"vigil/store/storetest"
)

// journal is a log that several goroutines write to.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// Nothing secret is logged, however much is logged and whatever goes wrong: contents of Secrets, sent well or badly, read well or badly;
// credentials that are refused; bodies that cannot be decoded.
func TestLogs_NoSecrets(t *testing.T) {
	const secret = "hunter2-very-secret"
	target := storetest.NewTarget(t)
	log := new(journal)
	s := apiservertest.Start(t, func(c *apiserver.Config) {
		c.Store = target.Store
		c.Fairness = true
		c.Logger = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	if err := createNamespace(t, s); err != nil {
		t.Fatal(err)
	}
	secrets := s.Clientset().CoreV1().Secrets("default")
	if _, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Data: map[string][]byte{"k": []byte(secret)}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// A value in etcd that cannot be read.
	broken := "k8s\x00" + secret
	if _, err := target.Etcd.Client().Put(t.Context(), "/registry/secrets/default/broken", broken); err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(s.Admin())
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := rest.HTTPClientFor(s.Anonymous())
	if err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString([]byte(secret))
	const path = "/api/v1/namespaces/default/secrets"
	for i, r := range []struct {
		by           *http.Client
		method, path string
		auth, body   string
		code         int
	}{
		{client, "POST", path, "", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"t"},"data":{"k":"` + encoded + `"}}`, 201},
		{client, "POST", path, "", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"t"},"data":{"k":"` + secret + `!"}}`, 400},
		{client, "POST", path, "", `{"metadata":{"name":"u"},"data":{"k":"` + encoded + `"}}`, 201},
		{client, "POST", path, "", `{"data":{"k":"` + secret, 400},
		{client, "POST", path, "", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"UPPER"},"stringData":{"k":"` + secret + `"}}`, 422},
		{client, "GET", path + "/broken", "", "", 500},
		{client, "PUT", path + "/broken", "", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"broken"}}`, 500},
		{stranger, "GET", path, "Bearer " + secret, "", 401},
		{stranger, "GET", path, "Bearer eyJhbGciOiJub25lIn0." + encoded + ".", "", 401},
		{stranger, "GET", path, "Basic " + encoded, "", 403},
	} {
		if r.path == path+"/broken" && r.method == "GET" {
			eventually.Nil(t, "the log tells of the broken value", func() error {
				if text := log.String(); !strings.Contains(text, "key=/registry/secrets/default/broken") {
					return errors.New(text)
				}
				return nil
			})
		}
		req, err := http.NewRequestWithContext(t.Context(), r.method, s.URL+r.path, strings.NewReader(r.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if r.auth != "" {
			req.Header.Set("Authorization", r.auth)
		}
		resp, err := r.by.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != r.code {
			t.Errorf("request %d is answered with %s, want %d: %.200s", i, resp.Status, r.code, body)
		}
	}
	text := log.String()
	if !strings.Contains(text, "refused a request") {
		t.Fatalf("the log shows no refused request, so it proves nothing: %s", text)
	}
	for _, bad := range []string{secret, encoded, base64.RawStdEncoding.EncodeToString([]byte(secret)), fmt.Sprintf("%x", secret)} {
		if i := strings.Index(text, bad); i >= 0 {
			t.Errorf("the log contains %q: %s", bad, text[max(0, i-200):min(len(text), i+100)])
		}
	}
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}
