package probe

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	corev1 "k8s.io/api/core/v1"

	"vigil/internal/attacktest"
)

// This file is a list of what a container may answer to probes and hooks, each with what that costs the kubelet.

// enough is how much an attacker sends to a client that takes everything, in bytes.
const enough = 256 << 20

// attacker is a server that does with each connection what it is told, and ends it.
func attacker(t *testing.T, serve func(net.Conn)) a {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				serve(conn)
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		serving.Wait()
	})
	return addressOf(t, listener.Addr().String())
}

// flood sends a beginning, and then a piece again and again, until the client has gone or has taken enough.
func flood(begin string, piece []byte) func(net.Conn) {
	return func(conn net.Conn) {
		_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		if _, err := conn.Write([]byte(begin)); err != nil {
			return
		}
		for sent := 0; sent < enough; sent += len(piece) {
			if _, err := conn.Write(piece); err != nil {
				return
			}
		}
	}
}

// headers are header lines with different names.
func headers(n int) []byte {
	var lines bytes.Buffer
	for i := range n {
		lines.WriteString("X" + strconv.Itoa(i) + ":\r\n")
	}
	return lines.Bytes()
}

const ok = "HTTP/1.1 200 OK\r\n"

// httpAttacks are answers to an HTTP request that have no end.
var httpAttacks = []struct {
	name  string
	serve func(net.Conn)
}{
	{"headers without end", flood(ok, headers(20_000))},
	{"one header without end", flood(ok+"X: ", bytes.Repeat([]byte("x"), 64<<10))},
	{"a folded header without end", flood(ok+"X: x\r\n", bytes.Repeat([]byte(" x\r\n"), 16<<10))},
	{"a status line without end", flood("HTTP/1.1 200 ", bytes.Repeat([]byte("x"), 64<<10))},
	{"informational answers without end", flood("", []byte("HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"))},
	{"large informational answers", flood("", []byte("HTTP/1.1 103 Early Hints\r\n"+string(headers(200_000))+"\r\n"))},
	{"a body without end", flood(ok+"\r\n", bytes.Repeat([]byte("x"), 64<<10))},
	{"a body of small pieces", flood(ok+"Transfer-Encoding: chunked\r\n\r\n", bytes.Repeat([]byte("1;"+strings.Repeat("x", 100)+"\r\nx\r\n"), 1000))},
	{"a piece of a body with a long extension", flood(ok+"Transfer-Encoding: chunked\r\n\r\n1;", bytes.Repeat([]byte("x"), 64<<10))},
	{"trailers without end", flood(ok+"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n", headers(20_000))},
	{"empty lines", flood("", bytes.Repeat([]byte("\r\n"), 16<<10))},
	{"HTTP/2", flood("\x00\x00\x00\x04\x00\x00\x00\x00\x00", bytes.Repeat([]byte("\x00\x00\x00\x04\x00\x00\x00\x00\x00"), 1000))},
	{"redirects with large headers", func(conn net.Conn) {
		flood("HTTP/1.1 302 Found\r\nLocation: /"+strings.Repeat("x", 30<<10)+"\r\n", headers(20_000))(conn)
	}},
	{"redirects in a circle", func(conn net.Conn) {
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
			_, _ = io.WriteString(conn, "HTTP/1.1 302 Found\r\nLocation: /"+strings.Repeat("x", 50<<10)+"\r\nContent-Length: 0\r\n\r\n")
		}
	}},
}

func TestAttack_HTTP(t *testing.T) {
	for _, tc := range httpAttacks {
		t.Run(tc.name, func(t *testing.T) {
			server := attacker(t, tc.serve)
			attacktest.Budget{Memory: 4 << 20, CPU: 2 * time.Second}.Spend(t, func() {
				_, output, err := New("v1.37.0").Do(t.Context(), httpGet(nil), 10*time.Second, server.target())
				if len(output) > outputLimit+100 || err != nil && len(err.Error()) > outputLimit {
					t.Errorf("%d bytes for people, %.200v", len(output), err)
				}
			})
		})
		t.Run("hook: "+tc.name, func(t *testing.T) {
			server := attacker(t, tc.serve)
			attacktest.Budget{Memory: 4 << 20, CPU: 2 * time.Second}.Spend(t, func() {
				_, err := New("v1.37.0").Hook(t.Context(), &corev1.Pod{}, &corev1.LifecycleHandler{HTTPGet: httpGet(nil).HTTPGet}, server.target())
				if err != nil && len(err.Error()) > 2*outputLimit {
					t.Errorf("failed with %d bytes", len(err.Error()))
				}
			})
		})
	}
}

// TestAttack_HTTP_Many: fifty probes at once that are all answered without end.
func TestAttack_HTTP_Many(t *testing.T) {
	server := attacker(t, flood(ok, headers(20_000)))
	client := New("v1.37.0")
	attacktest.Budget{Memory: 64 << 20, CPU: 10 * time.Second}.Spend(t, func() {
		var probes sync.WaitGroup
		for range 50 {
			probes.Go(func() {
				if result, _, _ := client.Do(t.Context(), httpGet(nil), 10*time.Second, server.target()); result == Success {
					t.Error("success")
				}
			})
		}
		probes.Wait()
	})
}

// TestAttack_HTTP_Slow: an answer that drips takes no longer than the probe may, whatever it drips.
func TestAttack_HTTP_Slow(t *testing.T) {
	for _, begin := range []string{"", ok, ok + "X: y\r\n\r\n", ok + "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"} {
		server := attacker(t, func(conn net.Conn) {
			_, _ = io.WriteString(conn, begin)
			for {
				if _, err := conn.Write([]byte("x")); err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond) // the rate of the attack, nothing waits for it
			}
		})
		attacktest.Budget{Memory: 1 << 20, CPU: time.Second}.Spend(t, func() {
			if result, output, _ := New("v1.37.0").Do(t.Context(), httpGet(nil), 300*time.Millisecond, server.target()); result != Failure {
				t.Errorf("behind %q: %v, %q", begin, result, output)
			}
		})
	}
}

// h2 is a server of HTTP/2 that hands over once a request has come. Frames that come meanwhile are read and forgotten.
func h2(t *testing.T, attack func(frames *http2.Framer, stream uint32) error) a {
	return attacker(t, func(conn net.Conn) {
		_ = conn.SetDeadline(time.Now().Add(5 * time.Minute))
		in := bufio.NewReader(conn)
		if _, err := io.ReadFull(in, make([]byte, len(http2.ClientPreface))); err != nil {
			return
		}
		frames := http2.NewFramer(conn, in)
		if frames.WriteSettings() != nil {
			return
		}
		for {
			frame, err := frames.ReadFrame()
			if err != nil {
				return
			}
			switch frame := frame.(type) {
			case *http2.SettingsFrame:
				if !frame.IsAck() && frames.WriteSettingsAck() != nil {
					return
				}
			case *http2.HeadersFrame:
				go func() { _, _ = io.Copy(io.Discard, in) }() // so that the client is never waited for
				_ = attack(frames, frame.StreamID)
				return
			}
		}
	})
}

// block encodes header fields.
func block(fields ...string) []byte {
	var out bytes.Buffer
	encoder := hpack.NewEncoder(&out)
	for i := 0; i < len(fields); i += 2 {
		_ = encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]})
	}
	return out.Bytes()
}

func TestAttack_GRPC(t *testing.T) {
	begin := func(frames *http2.Framer, stream uint32) error {
		return frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block(":status", "200", "content-type", "application/grpc"), EndHeaders: true})
	}
	literal := func(n int) []byte { // a field that no table keeps
		value := strings.Repeat("v", n)
		out := []byte{0, 1, 'x'}
		out = append(out, 0x7f)
		for rest := n - 127; ; rest >>= 7 {
			if rest < 128 {
				out = append(out, byte(rest))
				break
			}
			out = append(out, byte(rest)|0x80)
		}
		return append(out, value...)
	}
	for _, tc := range []struct {
		name   string
		attack func(frames *http2.Framer, stream uint32) error
	}{
		{"headers without end", func(frames *http2.Framer, stream uint32) error {
			err := frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: block(":status", "200", "content-type", "application/grpc")})
			for sent := 0; err == nil && sent < enough; sent += 16 << 10 {
				err = frames.WriteContinuation(stream, false, literal(16<<10-10))
			}
			return err
		}},
		{"a message of a gigabyte", func(frames *http2.Framer, stream uint32) error {
			err := begin(frames, stream)
			data := make([]byte, 16<<10)
			data[0] = 0
			binary.BigEndian.PutUint32(data[1:], 1<<30)
			for sent := 0; err == nil && sent < enough; sent += len(data) {
				err = frames.WriteData(stream, false, data)
			}
			return err
		}},
		{"a message of 3 MiB", func(frames *http2.Framer, stream uint32) error {
			err := begin(frames, stream)
			data := make([]byte, 16<<10)
			binary.BigEndian.PutUint32(data[1:], 3<<20)
			for sent := 0; err == nil && sent < 3<<20+5; sent += len(data) {
				err = frames.WriteData(stream, false, data)
			}
			return err
		}},
		{"a reason of a megabyte", func(frames *http2.Framer, stream uint32) error {
			fields := []string{":status", "200", "content-type", "application/grpc", "grpc-status", "13", "grpc-message", strings.Repeat("x", 1<<20)}
			rest := block(fields...)
			err := frames.WriteHeaders(http2.HeadersFrameParam{StreamID: stream, BlockFragment: rest[:16<<10], EndStream: true})
			for rest = rest[16<<10:]; err == nil && len(rest) > 0; {
				n := min(len(rest), 16<<10)
				err = frames.WriteContinuation(stream, n == len(rest), rest[:n])
				rest = rest[n:]
			}
			return err
		}},
		{"pings without end", func(frames *http2.Framer, stream uint32) error {
			var err error
			for sent := 0; err == nil && sent < 200_000; sent++ {
				err = frames.WritePing(false, [8]byte{1})
			}
			return err
		}},
		{"settings without end", func(frames *http2.Framer, stream uint32) error {
			var err error
			for sent := 0; err == nil && sent < 200_000; sent++ {
				err = frames.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(sent)})
			}
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server := h2(t, tc.attack)
			handler := &corev1.ProbeHandler{GRPC: &corev1.GRPCAction{Port: int32(server.port)}}
			attacktest.Budget{Memory: 8 << 20, CPU: 5 * time.Second}.Spend(t, func() {
				result, output, err := New("v1.37.0").Do(t.Context(), handler, 5*time.Second, server.target())
				if result != Failure || err != nil || len(output) > outputLimit {
					t.Errorf("%v, %d bytes for people, %.200v", result, len(output), err)
				}
			})
		})
	}
}

// TestAttack_Output: of what a command prints, people see the beginning.
func TestAttack_Output(t *testing.T) {
	target := Target{Container: &corev1.Container{Name: "c"}, Exec: func(_ context.Context, _ []string, _ time.Duration, limit int) ([]byte, int, error) {
		return bytes.Repeat([]byte{0xff}, limit), 1, nil
	}}
	action := &corev1.ExecAction{Command: []string{"cmd"}}
	if result, output, err := New("v1.37.0").Do(t.Context(), &corev1.ProbeHandler{Exec: action}, time.Second, target); result != Failure || err != nil || len(output) > 3*outputLimit {
		t.Errorf("%v, %d bytes, %v", result, len(output), err)
	}
	if _, err := New("v1.37.0").Hook(t.Context(), &corev1.Pod{}, &corev1.LifecycleHandler{Exec: action}, target); err == nil || len(err.Error()) > 10*outputLimit {
		t.Errorf("a hook fails with %.200v", err)
	}
}

// TestAttack_Command: references in a command do not multiply.
func TestAttack_Command(t *testing.T) {
	container := &corev1.Container{Name: "c", Env: []corev1.EnvVar{{Name: "A", Value: strings.Repeat("x", 100<<10)}}}
	target := Target{Container: container, Exec: func(_ context.Context, command []string, _ time.Duration, _ int) ([]byte, int, error) {
		t.Errorf("run with %d bytes", len(strings.Join(command, " ")))
		return nil, 0, nil
	}}
	action := &corev1.ExecAction{Command: []string{"cmd", strings.Repeat("$(A)", 100_000)}}
	attacktest.Budget{Memory: 4 << 20, CPU: 2 * time.Second}.Spend(t, func() {
		if result, _, err := New("v1.37.0").Do(t.Context(), &corev1.ProbeHandler{Exec: action}, time.Second, target); err == nil || result == Success {
			t.Errorf("%v, %v", result, err)
		}
	})
}
