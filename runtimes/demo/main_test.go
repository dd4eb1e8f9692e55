package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// run gives what a command prints on both outputs, and its status.
func run(input string, args ...string) (string, int) {
	var out bytes.Buffer
	code := command(args, strings.NewReader(input), &out, &out)
	return out.String(), code
}

func TestCommands(t *testing.T) {
	t.Setenv("GREETING", "hi")
	file := filepath.Join(t.TempDir(), "file")
	for _, test := range []struct {
		args  []string
		input string
		want  string
		code  int
	}{
		{args: []string{"echo", "a", "b"}, want: "a b\n"},
		{args: []string{"exit", "3"}, code: 3},
		{args: []string{"exit", "x"}, want: "exit: strconv.Atoi: parsing \"x\": invalid syntax\n", code: 1},
		{args: []string{"none"}, want: "demo: no command \"none\"\n", code: 127},
		{args: []string{"sleep"}, want: "sleep: usage: demo sleep SECONDS\n", code: 1},
		{args: []string{"sleep", "0.001"}},
		{args: []string{"write", file, "some", "text"}},
		{args: []string{"cat", file}, want: "some text\n"},
		{args: []string{"cat"}, input: "as it came", want: "as it came"},
		{args: []string{"cat", file + ".none"}, want: "cat: open " + file + ".none: no such file or directory\n", code: 1},
		{args: []string{"touch-later", "0", file + ".2"}},
		{args: []string{"fill", file + ".3", "1"}},
		{args: []string{"sh", "-c", "echo $GREETING 'two  words'; exit 4"}, want: "hi two  words\n", code: 4},
		{args: []string{"sh", "-c", "exit 0 && echo no"}, want: ""},
		{args: []string{"sh", "-c", "cat /none && echo no; echo $?"}, want: "cat: open /none: no such file or directory\n1\n"},
		{args: []string{"sh", "-c", "echo more >> " + file + " && cat " + file}, want: "some text\nmore\n"},
		{args: []string{"sh"}, input: "echo one\n\nexit 2\necho not\n", want: "one\n", code: 2},
	} {
		if got, code := run(test.input, test.args...); got != test.want || code != test.code {
			t.Errorf("%q: %q, status %d, want %q, status %d", test.args, got, code, test.want, test.code)
		}
	}
	if info, err := os.Stat(file + ".3"); err != nil || info.Size() != 1<<20 {
		t.Errorf("fill made %v, %v", info, err)
	}
	if got, code := run("", "ls", "-la", filepath.Dir(file)); code != 0 || strings.Count(got, "\n") != 3 {
		t.Errorf("ls: %q, status %d", got, code)
	}
}

// get asks a server and gives status and body.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

func TestServer(t *testing.T) {
	t.Setenv("POD_NAME", "hello-1")
	var log bytes.Buffer
	server := httptest.NewServer(newServer(options{version: "7"}, slog.New(slog.NewTextHandler(&log, nil))).routes())
	defer server.Close()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte("content"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		path string
		code int
		want string // contained in the body
	}{
		{"/", 200, "version: 7\npod: hello-1\n"},
		{"/version", 200, "7\n"},
		{"/readyz", 200, "ok"},
		{"/readyz?set=fail", 200, ""},
		{"/readyz", 503, "not ok"},
		{"/healthz", 200, "ok"},
		{"/readyz?set=ok", 200, ""},
		{"/readyz", 200, "ok"},
		{"/env?name=POD_NAME", 200, "hello-1\n"},
		{"/env", 200, "POD_NAME=hello-1\n"},
		{"/file?path=" + file, 200, "content"},
		{"/file?path=/none", 500, "no such file"},
		{"/status?code=418", 418, "teapot"},
		{"/stream?n=2&every=0.001", 200, "line 1\nline 2\n"},
		{"/hog?mb=1", 200, "holding 1 MB"},
		{"/spin?for=1ms", 200, "turns"},
		{"/delay?for=x", 400, "invalid"},
		{"/headers", 200, "Host: "},
		{"/none", 404, ""},
	} {
		if code, body := get(t, server.URL+test.path); code != test.code || !strings.Contains(body, test.want) {
			t.Errorf("%s: %d %q, want %d and %q", test.path, code, body, test.code, test.want)
		}
	}
	if !strings.Contains(log.String(), `path="/readyz?set=fail"`) {
		t.Errorf("the log lacks a request:\n%s", log.String())
	}
}

// The gRPC health service, with messages as they are on the wire.
func TestGRPCHealth(t *testing.T) {
	server := newServer(options{quiet: true}, slog.New(slog.DiscardHandler))
	server.ready.fail()
	web := httptest.NewUnstartedServer(server.routes())
	var protocols http.Protocols
	protocols.SetUnencryptedHTTP2(true)
	web.Config.Protocols = &protocols
	web.Start()
	defer web.Close()
	client := http.Client{Transport: &http.Transport{Protocols: &protocols}}
	for _, test := range []struct{ message, want, status string }{
		{"\x00\x00\x00\x00\x06\x0a\x04live", "\x00\x00\x00\x00\x02\x08\x01", "0"},
		{"\x00\x00\x00\x00\x07\x0a\x05ready", "\x00\x00\x00\x00\x02\x08\x02", "0"},
		{"\x00\x00\x00\x00\x00", "\x00\x00\x00\x00\x02\x08\x02", "0"},
		{"\x00\x00\x00\x00\x06\x0a\x04none", "", "5"},
		{"\x01\x00\x00\x00\x00", "", "3"},
		{"\x00", "", "3"},
	} {
		response, err := client.Post(web.URL+"/grpc.health.v1.Health/Check", "application/grpc", strings.NewReader(test.message))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		status := response.Trailer.Get("Grpc-Status")
		if string(body) != test.want || status != test.status {
			t.Errorf("%q: %q, status %q, want %q, status %s", test.message, body, status, test.want, test.status)
		}
	}
}

func TestRun_EndsGracefully(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	listener.Close()
	server := newServer(options{address: address, tcp: "127.0.0.1:0", udp: "127.0.0.1:0", exitOnStart: -1}, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.run(ctx) }()
	answered := make(chan string, 1)
	response := awaitServer(t, "http://"+address+"/stream?n=2&every=0.05")
	go func() {
		defer response.Body.Close()
		body, _ := io.ReadAll(response.Body)
		answered <- string(body)
	}()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := <-answered; got != "line 1\nline 2\n" {
		t.Errorf("a request under way got %q", got)
	}
	if server.ready.ok() {
		t.Error("it is ready after its end")
	}
}

// awaitServer asks until there is an answer.
func awaitServer(t *testing.T, url string) *http.Response {
	t.Helper()
	deadline := time.Now().Add(5 * time.Minute)
	for {
		response, err := http.Get(url)
		if err == nil {
			return response
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

func TestEcho(t *testing.T) {
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	go echoTCP(tcp)
	go echoUDP(udp)
	for network, address := range map[string]string{"tcp": tcp.Addr().String(), "udp": udp.LocalAddr().String()} {
		conn, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte("hello")); err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 5)
		if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
			t.Errorf("%s: %q, %v", network, got, err)
		}
		conn.Close()
	}
}
