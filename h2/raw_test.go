package h2

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// rawClient speaks frames, right and wrong ones.
type rawClient struct {
	t    testing.TB
	conn net.Conn
	*http2.Framer
	block bytes.Buffer
	enc   *hpack.Encoder
}

// dialRaw connects and sends the preface and settings.
func dialRaw(t testing.TB, addr string, settings ...http2.Setting) *rawClient {
	t.Helper()
	c, err := tls.Dial("tcp", addr, clientTLS("h2"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(5 * time.Minute))
	return newRaw(t, c, settings...)
}

func newRaw(t testing.TB, c net.Conn, settings ...http2.Setting) *rawClient {
	t.Helper()
	r := &rawClient{t: t, conn: c, Framer: http2.NewFramer(c, c)}
	r.enc = hpack.NewEncoder(&r.block)
	r.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	r.AllowIllegalWrites = true
	if _, err := io.WriteString(c, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	r.must(r.WriteSettings(settings...))
	return r
}

func (r *rawClient) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// encode returns a header block with the fields, name and value by turns.
func (r *rawClient) encode(fields ...string) []byte {
	r.block.Reset()
	for i := 0; i < len(fields); i += 2 {
		r.must(r.enc.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}))
	}
	return bytes.Clone(r.block.Bytes())
}

func requestFields(method, path string, more ...string) []string {
	return append([]string{":method", method, ":scheme", "https", ":authority", "127.0.0.1", ":path", path}, more...)
}

// open sends the HEADERS of a request.
func (r *rawClient) open(id uint32, end bool, fields ...string) {
	r.t.Helper()
	r.must(r.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: r.encode(fields...), EndStream: end, EndHeaders: true}))
}

func (r *rawClient) get(id uint32, path string) {
	r.t.Helper()
	r.open(id, true, requestFields("GET", path)...)
}

// next returns the next frame that is not about the connection's set-up.
func (r *rawClient) next() http2.Frame {
	r.t.Helper()
	for {
		f, err := r.ReadFrame()
		r.must(err)
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if !f.IsAck() {
				r.must(r.WriteSettingsAck())
			}
		case *http2.WindowUpdateFrame:
		default:
			return f
		}
	}
}

// status reads the HEADERS of a response.
func (r *rawClient) status(id uint32) string {
	r.t.Helper()
	f, ok := r.next().(*http2.MetaHeadersFrame)
	if !ok || f.StreamID != id {
		r.t.Fatalf("no response for stream %d: %v", id, f)
	}
	return f.PseudoValue("status")
}

// gone reads to the end and returns GOAWAY's code and debug data.
func (r *rawClient) gone() (http2.ErrCode, string) {
	r.t.Helper()
	var code http2.ErrCode = 0xffff
	var debug string
	for {
		f, err := r.ReadFrame()
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || code != 0xffff {
				return code, debug
			}
			r.t.Fatalf("connection ended with %v", err)
		}
		if f, ok := f.(*http2.GoAwayFrame); ok {
			code, debug = f.ErrCode, string(f.DebugData())
			_ = r.conn.Close()
		}
	}
}
