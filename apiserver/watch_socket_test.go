package apiserver_test

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gorilla/websocket"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
)

// TestWatch_SocketProtocols watches as browsers do: they can set no header, so that a token comes among the subprotocols, and they fail
// a connection whose answer selects none of what they offered.
func TestWatch_SocketProtocols(t *testing.T) {
	t.Parallel()
	tokens := filepath.Join(t.TempDir(), "tokens.csv")
	if err := os.WriteFile(tokens, []byte("st4tic,ann,7,\"system:masters\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, _, k := start(t, func(c *apiserver.Config) { c.Authentication.TokenFile = tokens })
	namespace(t, k, "a")
	configMap(t, k, "a", "c1", "app=x")

	config := s.Admin()
	anonymous := rest.AnonymousClientConfig(config)
	bearer := func(token string) string {
		return "base64url.bearer.authorization.k8s.io." + base64.RawURLEncoding.EncodeToString([]byte(token))
	}
	for _, test := range []struct {
		name     string
		config   *rest.Config
		offered  []string
		selected string // "" where the handshake fails
		code     int
	}{
		{"certificate", config, []string{"base64.binary.k8s.io"}, "base64.binary.k8s.io", 0},
		{"unknown protocol", config, []string{"v7.something"}, "v7.something", 0},
		{"several", config, []string{"v1.first", "base64.binary.k8s.io"}, "v1.first", 0},
		{"token first", anonymous, []string{bearer("st4tic"), "base64.binary.k8s.io"}, "base64.binary.k8s.io", 0},
		{"token last", anonymous, []string{"base64.binary.k8s.io", bearer("st4tic")}, "base64.binary.k8s.io", 0},
		{"token alone", anonymous, []string{bearer("st4tic")}, "", http.StatusUnauthorized},
		{"two tokens", anonymous, []string{bearer("st4tic"), bearer("st4tic"), "base64.binary.k8s.io"}, "", http.StatusUnauthorized},
		{"wrong token", anonymous, []string{bearer("wrong"), "base64.binary.k8s.io"}, "", http.StatusUnauthorized},
	} {
		t.Run(test.name, func(t *testing.T) {
			tls, err := rest.TLSConfigFor(test.config)
			if err != nil {
				t.Fatal(err)
			}
			dialer := websocket.Dialer{TLSClientConfig: tls, Subprotocols: test.offered}
			conn, answer, err := dialer.Dial(strings.Replace(s.URL, "https", "wss", 1)+"/api/v1/namespaces/a/configmaps?watch=true", http.Header{"Origin": {"https://example.com"}})
			if test.selected == "" {
				if err == nil {
					conn.Close()
					t.Fatal("the handshake succeeded")
				}
				if answer == nil || answer.StatusCode != test.code {
					t.Errorf("answer %v, want %d", answer, test.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if got := answer.Header.Values("Sec-Websocket-Protocol"); !slices.Equal(got, []string{test.selected}) {
				t.Fatalf("selected %q, want %q: a browser fails the connection", got, test.selected)
			}
			typ, msg, err := conn.ReadMessage()
			var e event
			if err != nil || typ != websocket.TextMessage || json.Unmarshal(msg, &e) != nil || json.Unmarshal(e.Raw, &e.Object) != nil || e.String() != "ADDED c1" {
				t.Errorf("type %d, %q, %v", typ, msg, err)
			}
		})
	}
}
