package attacktest

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

// recorder notes what a test is told.
type recorder struct {
	testing.TB
	said []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Logf(string, ...any)       {}
func (r *recorder) Errorf(f string, a ...any) { r.said = append(r.said, fmt.Sprintf(f, a...)) }
func (r *recorder) Fatalf(f string, a ...any) { r.Errorf(f, a...); runtime.Goexit() }

func (r *recorder) during(b Budget, do func()) string {
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Spend(r, do)
	}()
	<-done
	return strings.Join(r.said, "\n")
}

func TestSpend(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	var held []byte
	defer func() { runtime.KeepAlive(held) }()
	for _, tc := range []struct {
		name   string
		budget Budget
		do     func()
		says   string
	}{
		{"little", Budget{Memory: 1 << 20, CPU: time.Minute}, func() {}, ""},
		{"memory", Budget{Memory: 1 << 20}, func() {
			held = make([]byte, 64<<20)
		}, "64 MiB of memory, which may be 1024 KiB"},
		{"CPU", Budget{CPU: time.Millisecond}, func() {
			for began := cpuTime(); cpuTime()-began < 10*time.Millisecond; {
			}
		}, "of CPU time, which may be 1ms"},
		{"time", Budget{Time: time.Millisecond}, func() { <-stop }, "not over after 1ms"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if says := (&recorder{TB: t}).during(tc.budget, tc.do); !strings.Contains(says, tc.says) || tc.says == "" && says != "" {
				t.Errorf("it says %q", says)
			}
		})
	}
}
