package logfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

const stamp = "2026-01-02T03:04:%02d.000000001Z "

// entry is one entry of a file, printed in second at.
func entry(at int, rest string) string { return fmt.Sprintf(stamp, at) + rest + "\n" }

func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.WriteString(text)
	}
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestCopy(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, entry(1, "stdout F one")+entry(2, "stderr F two")+entry(3, "stdout P thr")+entry(4, "stdout F ee")+
		"nonsense\n"+entry(5, "stdout F ")+entry(6, "stderr F six")+strings.TrimSuffix(entry(7, "stdout F seven"), "\n"))
	all := Options{Tail: -1, Stdout: true, Stderr: true}
	with := func(change func(*Options)) Options { o := all; change(&o); return o }
	for _, tc := range []struct {
		name string
		opts Options
		want string
	}{
		{"all", all, "one\ntwo\nthree\n\nsix\nseven"},
		{"tail", with(func(o *Options) { o.Tail = 2 }), "six\nseven"},
		{"tail of more than there is", with(func(o *Options) { o.Tail = 100 }), "one\ntwo\nthree\n\nsix\nseven"},
		{"tail of nothing", with(func(o *Options) { o.Tail = 0 }), ""},
		{"since", with(func(o *Options) { o.Since = time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC) }), "six\nseven"},
		{"limit", with(func(o *Options) { o.Limit = 9 }), "one\ntwo\nt"},
		{"limit at a line's end", with(func(o *Options) { o.Limit = 4 }), "one\n"},
		{"stderr", with(func(o *Options) { o.Stdout = false }), "two\nsix\n"},
		{"stdout", with(func(o *Options) { o.Stderr = false }), "one\nthree\n\nseven"},
		{"timestamps", with(func(o *Options) { o.Timestamps, o.Tail, o.Stderr = true, 6, false }),
			"2026-01-02T03:04:03.000000001Z three\n2026-01-02T03:04:05.000000001Z \n2026-01-02T03:04:07.000000001Z seven"},
	} {
		var got bytes.Buffer
		if err := Copy(t.Context(), &got, path, tc.opts); err != nil || got.String() != tc.want {
			t.Errorf("%s: got %q, %v, want %q", tc.name, got.String(), err, tc.want)
		}
	}
	if err := Copy(t.Context(), &bytes.Buffer{}, path+"x", all); err == nil || !strings.Contains(err.Error(), "failed to try resolving symlinks") {
		t.Errorf("no file: %v", err)
	}
}

// TestTail compares with the stupid way, over files of several blocks.
func TestTail(t *testing.T) {
	var text strings.Builder
	for i := range 3000 {
		text.WriteString(entry(i%60, "stdout F "+strings.Repeat("x", i%97)))
	}
	for _, end := range []string{"", "an unfinished line"} {
		path := filepath.Join(t.TempDir(), "0.log")
		write(t, path, text.String()+end)
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		lines := strings.SplitAfter(strings.TrimSuffix(text.String()+end, "\n"), "\n")
		for _, n := range []int{0, 1, 2, 500, 2999, 3000, 3001, 5000} {
			want := int64(len(strings.Join(lines[:max(0, len(lines)-n)], "")))
			if n == 0 {
				want = int64(len(text.String() + end))
			}
			if got, err := tail(t.Context(), f, int64(n)); err != nil || got != want {
				t.Errorf("%d lines: got %d, %v, want %d", n, got, err, want)
			}
		}
	}
}

// sink is a writer that can be waited for.
type sink struct {
	mu   sync.Mutex
	cond sync.Cond
	text string
}

func newSink() *sink {
	s := &sink{}
	s.cond.L = &s.mu
	return s
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text += string(p)
	s.cond.Broadcast()
	return len(p), nil
}

func (s *sink) wait(t *testing.T, want string) {
	t.Helper()
	stop := context.AfterFunc(t.Context(), s.cond.Broadcast)
	defer stop()
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.text != want {
		if !strings.HasPrefix(want, s.text) || t.Context().Err() != nil {
			t.Fatalf("got %q, want %q", s.text, want)
		}
		s.cond.Wait()
	}
}

// TestFollow follows a file through a rotation to the end of the container.
func TestFollow(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "0.log")
	write(t, path, entry(1, "stdout F one"))
	var w Watcher
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- w.Run(ctx) }()
	changes, stop := w.Watch(dir)
	var running atomic.Bool
	running.Store(true)
	got := newSink()
	done := make(chan error, 1)
	go func() {
		done <- Copy(ctx, got, path, Options{Tail: -1, Stdout: true, Stderr: true, Follow: true, Running: running.Load, Changes: changes})
	}()
	want := "one\n"
	got.wait(t, want)
	write(t, path, strings.TrimSuffix(entry(2, "stdout F two"), "o\n")) // half a line is none
	write(t, path, "o\n"+entry(3, "stderr F three"))
	want += "two\nthree\n"
	got.wait(t, want)

	if err := os.Rename(path, path+".old"); err != nil {
		t.Fatal(err)
	}
	write(t, path+".old", entry(4, "stdout F four")) // until it is told to open the new one
	want += "four\n"
	got.wait(t, want)
	write(t, path+".old", entry(5, "stdout F five"))
	write(t, path, entry(6, "stdout F six"))
	want += "five\nsix\n"
	got.wait(t, want)

	write(t, path, strings.TrimSuffix(entry(7, "stdout F last words"), "\n"))
	running.Store(false)
	if err := <-done; err != nil {
		t.Errorf("follow: %v", err)
	}
	got.wait(t, want+"last words")
	stop()
	cancel()
	if err := <-ran; err != nil {
		t.Errorf("watcher: %v", err)
	}
	if len(w.dirs) != 0 {
		t.Errorf("still watched: %v", w.dirs)
	}
}

// TestFollow_ClientGone ends with the context.
func TestFollow_ClientGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	write(t, path, entry(1, "stdout F one"))
	ctx, cancel := context.WithCancel(t.Context())
	got := newSink()
	done := make(chan error, 1)
	go func() {
		done <- Copy(ctx, got, path, Options{Tail: -1, Stdout: true, Follow: true, Running: func() bool { return true }})
	}()
	got.wait(t, "one\n")
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{entry(1, "stdout F one"), entry(1, "stderr P one"), entry(1, "stdout F:x "), "x", " ", entry(1, "stdin F x")} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := parse(raw)
		if err == nil && len(l.text) > len(raw) {
			t.Errorf("%q: more text than there is: %q", raw, l.text)
		}
	})
}

// BenchmarkCopy reads a file of 16 MB.
func BenchmarkCopy(b *testing.B) {
	path := filepath.Join(b.TempDir(), "0.log")
	var text strings.Builder
	for text.Len() < 16<<20 {
		text.WriteString(entry(1, "stdout F "+strings.Repeat("x", 100)))
	}
	if err := os.WriteFile(path, []byte(text.String()), 0o600); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(text.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if err := Copy(b.Context(), discard{}, path, Options{Tail: -1, Stdout: true, Stderr: true}); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
