package h2

import (
	"bytes"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"vigil/internal/eventually"
)

var seed = flag.Uint64("seed", 0, "seed of TestTraffic; 0 means a new one")

// pattern is a body that shows where a byte was lost or doubled.
func pattern(n int) []byte {
	b := make([]byte, 0, n+8)
	for i := uint64(0); len(b) < n; i++ {
		b = binary.BigEndian.AppendUint64(b, i)
	}
	return b[:n]
}

// feeder drives the watch streams of TestTraffic as delivery workers do: it writes the pattern of each, from where the last
// TryWrite left off.
type feeder struct {
	ready chan *fed
	data  []byte
	wg    sync.WaitGroup
}

type fed struct {
	*Stream
	at, end int
	flush   bool
}

func (f *feeder) work() {
	defer f.wg.Done()
	for s := range f.ready {
		chunk := f.data[s.at:min(s.end, s.at+5000)]
		try := s.TryWrite
		if s.flush = !s.flush; s.flush {
			try = s.TryBuffer
		}
		n, err := try(chunk[:len(chunk)/2], chunk[len(chunk)/2:])
		s.at += n
		switch {
		case err != nil:
		case s.at == s.end:
			s.Close()
		default:
			if s.flush {
				s.Flush()
			}
			s.OnWritable(func() { f.ready <- s })
		}
	}
}

// TestTraffic: lists, uploads, watches and cancellations at random on few connections. Every byte that comes is the right one, every
// response that is not cancelled is complete, and nothing is left when all is over.
func TestTraffic(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed %d", *seed)
	const most = 300_000
	data := pattern(most)
	feed := &feeder{ready: make(chan *fed, 100_000), data: data}
	for range 2 {
		feed.wg.Add(1)
		go feed.work()
	}
	length := func(r *http.Request) (n int) {
		_, _ = fmt.Sscan(r.URL.Query().Get("n"), &n)
		return n
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/list", func(w http.ResponseWriter, r *http.Request) {
		rest := data[:length(r)]
		for piece := len(rest)/7 + 1; len(rest) > 0; rest = rest[min(len(rest), piece):] {
			if _, err := w.Write(rest[:min(len(rest), piece)]); err != nil {
				return
			}
			if piece%2 == 0 {
				w.(http.Flusher).Flush()
			}
		}
	})
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	mux.HandleFunc("/watch", func(w http.ResponseWriter, r *http.Request) {
		if s, _, err := Detach(w); err == nil {
			feed.ready <- &fed{Stream: s, end: length(r)}
		}
	})
	s := start(t, &Server{Handler: mux, MaxConcurrentStreams: 30, UploadPerStream: 20_000})

	var wg sync.WaitGroup
	for i := range 3 {
		c := client(t)
		c.Transport.(*http.Transport).HTTP2 = &http.HTTP2Config{MaxReceiveBufferPerStream: 30_000, MaxReceiveBufferPerConnection: 70_000}
		for j := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(*seed, uint64(i*100+j)))
				for range 40 {
					n := rng.IntN(most)
					ctx, cancel := context.WithCancel(t.Context())
					if err := oneRequest(ctx, cancel, c, s.url, rng, data[:n]); err != nil {
						t.Error(err)
					}
					cancel()
				}
			})
		}
	}
	wg.Wait()
	eventually.Nil(t, "cancellations that are under way have ended their streams", func() error {
		if got := s.Stats(); got.Streams != 0 || got.Detached != 0 || got.Handlers != 0 {
			return fmt.Errorf("left behind: %+v", got)
		}
		return nil
	})
	t.Logf("%+v", s.Stats())
	s.Close()
	close(feed.ready)
	feed.wg.Wait()
}

// oneRequest asks for want in one way or another; every third time it gives up in the middle.
func oneRequest(ctx context.Context, cancel func(), c *http.Client, url string, rng *rand.Rand, want []byte) error {
	path := []string{"list", "echo", "watch"}[rng.IntN(3)]
	method, body := "GET", io.Reader(nil)
	if path == "echo" {
		method, body = "POST", bytes.NewReader(want)
	}
	what := fmt.Sprintf("/%s?n=%d", path, len(want))
	req, err := http.NewRequestWithContext(ctx, method, url+what, body)
	if err != nil {
		return err
	}
	resp, err := c.Do(req)
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	defer resp.Body.Close()
	limit, quits := len(want)+1, rng.IntN(3) == 0
	if quits {
		limit = rng.IntN(len(want) + 1)
	}
	got, err := io.ReadAll(io.LimitReader(resp.Body, int64(limit)))
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	if quits {
		cancel()
		want = want[:limit]
	}
	if !bytes.Equal(got, want) {
		return fmt.Errorf("%s: %d bytes came, not the right ones", what, len(got))
	}
	return nil
}
