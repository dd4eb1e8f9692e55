package h2

import (
	"bytes"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"vigil/internal/need"
)

func run(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.Command(need.Program(t, name), args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// trustFile writes the server's certificate for clients that want a file.
func trustFile(t *testing.T) string {
	file := filepath.Join(t.TempDir(), "ca.pem")
	b := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate().Certificate[0]})
	if err := os.WriteFile(file, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// service answers what the clients of these tests ask.
func service(large []byte) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /hello", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello over %s\n", r.Proto) })
	mux.HandleFunc("GET /large", func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write(large) })
	mux.HandleFunc("POST /sum", func(w http.ResponseWriter, r *http.Request) {
		h := sha256.New()
		_, err := io.Copy(h, r.Body)
		fmt.Fprintf(w, "%x %v", h.Sum(nil), err)
	})
	mux.HandleFunc("GET /trailers", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Trailer", "X-Sum")
		w.WriteHeader(http.StatusEarlyHints)
		fmt.Fprint(w, "body")
		w.Header().Set("X-Sum", "42")
	})
	return mux
}

func TestClient_XNet(t *testing.T) {
	large := bytes.Repeat([]byte("large "), 1<<20)
	s := start(t, &Server{Handler: service(large)})
	tr := &http2.Transport{TLSClientConfig: clientTLS("h2"), MaxReadFrameSize: 1 << 20}
	defer tr.CloseIdleConnections()
	c := &http.Client{Transport: tr}
	resp, err := c.Get(s.url + "/large")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || !bytes.Equal(b, large) {
		t.Errorf("%d bytes, %v", len(b), err)
	}
	resp, err = c.Post(s.url+"/sum", "text/plain", bytes.NewReader(large))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != fmt.Sprintf("%x <nil>", sha256.Sum256(large)) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestClient_Curl(t *testing.T) {
	need.Program(t, "curl")
	large := bytes.Repeat([]byte("large "), 1<<20)
	s := start(t, &Server{Handler: service(large)})
	ca, dir := trustFile(t), t.TempDir()
	curl := func(args ...string) string {
		t.Helper()
		return run(t, "curl", append([]string{"--silent", "--show-error", "--fail", "--http2", "--cacert", ca, "--max-time", "300"}, args...)...)
	}
	if got := curl(s.url+"/hello", "--write-out", "%{http_version}"); got != "hello over HTTP/2.0\n2" {
		t.Errorf("hello: %q", got)
	}
	file := filepath.Join(dir, "large")
	curl(s.url+"/large", "--output", file)
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, large) {
		t.Errorf("large: %d bytes, %v", len(got), err)
	}
	for _, expect := range []string{"Expect:", "Expect: 100-continue"} {
		got := curl(s.url+"/sum", "--data-binary", "@"+file, "--header", expect)
		if want := fmt.Sprintf("%x <nil>", sha256.Sum256(large)); got != want {
			t.Errorf("upload with %q: %s", expect, got)
		}
	}
	if got := curl(s.url+"/trailers", "--include"); !strings.Contains(got, "x-sum: 42") || !strings.Contains(got, "HTTP/2 103") {
		t.Errorf("trailers: %s", got)
	}
	if got := curl("--head", s.url+"/hello"); !strings.Contains(got, "HTTP/2 200") {
		t.Errorf("head: %s", got)
	}
	if got := curl("--http1.1", s.url+"/hello"); got != "hello over HTTP/1.1\n" { // the listener's other half
		t.Errorf("HTTP/1.1: %q", got)
	}
}

func TestClient_Node(t *testing.T) {
	need.Program(t, "node")
	s := start(t, &Server{Handler: service(bytes.Repeat([]byte("large "), 1<<20))})
	script := `
const http2 = require('node:http2'), fs = require('node:fs'), assert = require('node:assert');
const session = http2.connect(process.argv[1], {ca: fs.readFileSync(process.argv[2])});
session.on('error', err => { console.error('session:', err); });
const ask = (headers, body) => new Promise((resolve, reject) => {
  const r = {headers: {}, length: 0, text: '', trailers: {}, informed: []}, stream = session.request(headers);
  stream.on('headers', h => r.informed.push(h[':status']));
  stream.on('response', h => r.headers = h);
  stream.on('trailers', h => r.trailers = h);
  stream.on('data', d => { r.length += d.length; if (r.length < 1000) r.text += d; });
  stream.on('end', () => resolve(r));
  stream.on('error', reject);
  stream.end(body);
});
(async () => {
  await new Promise(resolve => session.on('connect', resolve));
  await new Promise((resolve, reject) => session.ping((err) => err ? reject(err) : resolve()));
  assert.equal((await ask({':path': '/hello'})).text, 'hello over HTTP/2.0\n');
  const all = await Promise.all(Array.from({length: 200}, () => ask({':path': '/hello'})));
  assert(all.every(r => r.headers[':status'] === 200 && r.text === 'hello over HTTP/2.0\n'));
  assert.equal((await ask({':path': '/large'})).length, 6 << 20);
  const t = await ask({':path': '/trailers'});
  assert.deepEqual([t.text, t.trailers['x-sum'], t.informed], ['body', '42', [103]]);
  const body = Buffer.alloc(3 << 20, 'x'), sum = require('node:crypto').createHash('sha256').update(body).digest('hex');
  assert.equal((await ask({':path': '/sum', ':method': 'POST'}, body)).text, sum + ' <nil>');
  const cancelled = session.request({':path': '/large'});
  cancelled.on('error', () => {});
  cancelled.on('response', () => cancelled.close(http2.constants.NGHTTP2_CANCEL));
  await new Promise(resolve => cancelled.on('close', resolve));
  assert.equal((await ask({':path': '/hello'})).headers[':status'], 200);
  await new Promise(resolve => session.close(resolve));
  console.log('passed');
})().catch(err => { console.error(err); process.exit(1); });
`
	if got := run(t, "node", "-e", script, s.url, trustFile(t)); got != "passed\n" {
		t.Errorf("node: %s", got)
	}
}

// TestClient_Load has many streams at once on several connections of nghttp2, curl's implementation.
func TestClient_Load(t *testing.T) {
	need.Program(t, "curl")
	s := start(t, &Server{Handler: service(bytes.Repeat([]byte("large "), 1<<18))})
	ca := trustFile(t)
	for _, c := range []struct {
		path         string
		times, bytes int
	}{{"/hello", 600, len("hello over HTTP/2.0\n")}, {"/large", 12, 6 << 18}} {
		var clients sync.WaitGroup
		for range 8 {
			clients.Go(func() {
				out, err := exec.CommandContext(t.Context(), "curl", "--silent", "--show-error", "--fail", "--http2", "--cacert", ca, "--max-time", "300",
					"--parallel", "--parallel-max", "20", "--output", "/dev/null", "--write-out", "%{http_version} %{http_code} %{size_download} %{num_connects}\n",
					fmt.Sprintf("%s%s?[1-%d]", s.url, c.path, c.times)).Output() // standard error has a progress bar
				answer := fmt.Sprintf("2 200 %d ", c.bytes)
				if n := strings.Count(string(out), answer); err != nil || n != c.times {
					t.Errorf("%d of %d requests for %s are answered with %q: %v\n%.1000s", n, c.times, c.path, answer, err, out)
				}
				if n := strings.Count(string(out), answer+"0\n"); n < c.times/2 {
					t.Errorf("%d of %d requests for %s share a connection", n, c.times, c.path)
				}
			})
		}
		clients.Wait()
	}
}
