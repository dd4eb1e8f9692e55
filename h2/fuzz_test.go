package h2

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// fuzzed serves one connection to which data is written, in a bubble of its own: it must end, on its own clock, and leave no goroutine.
func fuzzed(t *testing.T, data []byte) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var streams []*Stream
		s := &Server{
			MaxConcurrentStreams: 8, UploadPerConn: initialWindow, UploadPerStream: 1000, MaxHeaderBytes: 4000,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				switch r.URL.Path {
				case "/detach":
					if st, _, err := Detach(w); err == nil {
						st.OnWritable(func() { _, _ = st.TryWrite([]byte("again")) })
						mu.Lock()
						streams = append(streams, st)
						mu.Unlock()
					}
				case "/abort":
					panic(http.ErrAbortHandler)
				case "/large":
					_, _ = w.Write(make([]byte, 3*chunkLen))
				case "/wait":
					<-r.Context().Done()
				default:
					_, _ = io.CopyN(w, r.Body, 100)
					w.Header().Set(http.TrailerPrefix+"X", "y")
				}
			}),
		}
		near, far := net.Pipe()
		served := make(chan error, 1)
		go func() { served <- s.newConn(t.Context(), far, nil, ConnOptions{}).serve() }()
		go func() { // the client reads what comes
			fr := http2.NewFramer(io.Discard, near)
			for {
				if _, err := fr.ReadFrame(); err != nil {
					_, _ = io.Copy(io.Discard, near)
					return
				}
			}
		}()
		_ = near.SetWriteDeadline(time.Now().Add(time.Minute))
		if _, err := io.WriteString(near, http2.ClientPreface); err == nil {
			_, _ = near.Write(data)
		}
		synctest.Wait()
		mu.Lock()
		for i, st := range streams {
			_, _ = st.TryWrite(make([]byte, 10_000*i))
			if i%2 == 0 {
				st.Close()
			}
		}
		mu.Unlock()
		synctest.Wait()
		near.Close()
		<-served
		synctest.Wait()
		if got := s.Stats(); got.Streams != 0 || got.Detached != 0 || got.Handlers != 0 || got.Connections != 0 {
			t.Errorf("left behind: %+v", got)
		}
	})
}

// frames builds a client's bytes with w.
func frames(w func(*http2.Framer, *hpack.Encoder, *bytes.Buffer)) []byte {
	var out, block bytes.Buffer
	fr := http2.NewFramer(&out, nil)
	fr.AllowIllegalWrites = true
	w(fr, hpack.NewEncoder(&block), &block)
	return out.Bytes()
}

// FuzzBytes: whatever bytes follow the preface.
func FuzzBytes(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	for _, path := range []string{"/", "/detach", "/abort", "/large", "/wait"} {
		for _, body := range []bool{false, true} {
			f.Add(frames(func(fr *http2.Framer, enc *hpack.Encoder, block *bytes.Buffer) {
				_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 5000})
				for _, kv := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", path}, {":authority", "a"}, {"x", "y"}} {
					_ = enc.WriteField(hpack.HeaderField{Name: kv[0], Value: kv[1]})
				}
				_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes()[:3], EndStream: !body})
				_ = fr.WriteContinuation(1, true, block.Bytes()[3:])
				if body {
					_ = fr.WriteDataPadded(1, false, []byte("data"), make([]byte, 9))
					_ = fr.WriteData(1, true, nil)
				}
				_ = fr.WriteWindowUpdate(1, 1000)
				_ = fr.WriteWindowUpdate(0, 1000)
				_ = fr.WritePing(false, [8]byte{1})
				_ = fr.WriteSettingsAck()
				_ = fr.WriteRSTStream(1, http2.ErrCodeCancel)
				_ = fr.WriteGoAway(0, http2.ErrCodeNo, nil)
			}))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzzed(t, data) })
}

// FuzzFrames: sequences of frames that are mostly right, three bytes each: which, on which stream, and how.
func FuzzFrames(f *testing.F) {
	f.Add([]byte{0, 1, 0, 1, 1, 0})
	f.Add([]byte("\x00\x01\x02\x01\x01\x03\x02\x01\x04\x00\x03\x05\x04\x03\x00\x05\x01\x00"))
	f.Add([]byte("\x00\x01\x01\x00\x03\x02\x00\x05\x03\x00\x07\x04\x03\x00\xff\x06\x00\x10\x07\x00\x00\x08\x00\x00"))
	f.Add(bytes.Repeat([]byte{0, 1, 1, 4, 1, 8}, 12))
	f.Fuzz(func(t *testing.T, ops []byte) {
		fuzzed(t, frames(func(fr *http2.Framer, enc *hpack.Encoder, block *bytes.Buffer) {
			_ = fr.WriteSettings()
			opened := uint32(0)
			for ; len(ops) >= 3; ops = ops[3:] {
				op, id, how := ops[0]%12, uint32(ops[1]), ops[2]
				switch op {
				case 0: // a new request
					block.Reset()
					opened += 1 + opened%2
					if opened%2 == 0 {
						opened++
					}
					path := []string{"/", "/detach", "/abort", "/large", "/wait"}[how%5]
					for _, kv := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":path", path}, {":authority", "a"},
						{"content-length", fmt.Sprint(how / 8)}} {
						if kv[0] != "content-length" || how%3 == 0 {
							_ = enc.WriteField(hpack.HeaderField{Name: kv[0], Value: kv[1]})
						}
					}
					_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: opened, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: how&1 == 0})
				case 1:
					_ = fr.WriteData(id, how&1 == 1, make([]byte, how))
				case 2:
					_ = fr.WriteDataPadded(id, how&1 == 1, make([]byte, how/2), make([]byte, how/3))
				case 3: // trailers, or anything else that comes late
					block.Reset()
					_ = enc.WriteField(hpack.HeaderField{Name: "x-late", Value: "1"})
					_ = fr.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block.Bytes(), EndHeaders: how&2 == 0, EndStream: how&1 == 1})
				case 4:
					_ = fr.WriteRSTStream(id, http2.ErrCode(how))
				case 5:
					_ = fr.WriteWindowUpdate(id, uint32(how)<<(how%24))
				case 6:
					_ = fr.WriteSettings(http2.Setting{ID: http2.SettingID(id), Val: uint32(how) << (how % 24)})
				case 7:
					_ = fr.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(how) << (how % 20)})
				case 8:
					_ = fr.WritePing(how&1 == 0, [8]byte{how})
				case 9:
					_ = fr.WritePriority(id, http2.PriorityParam{StreamDep: uint32(how), Weight: how})
				case 10:
					_ = fr.WriteRawFrame(http2.FrameType(how), http2.Flags(id), uint32(how&3), make([]byte, id))
				case 11:
					_ = fr.WriteSettingsAck()
				}
			}
		}))
	})
}
