package cluster

import (
	"fmt"
	"io"
	"time"
)

// progress prints the steps of a start with the time each took, for people.
type progress struct {
	out   io.Writer
	begin time.Time
	last  time.Time
}

func newProgress(out io.Writer) *progress {
	now := time.Now()
	return &progress{out: out, begin: now, last: now}
}

// step says that something is done; the time shown is that since the step before.
func (p *progress) step(what, detail string) {
	now := time.Now()
	fmt.Fprintf(p.out, "  %-20s %7s  %s\n", what, shortDuration(now.Sub(p.last)), detail)
	p.last = now
}

func (p *progress) note(format string, args ...any) {
	fmt.Fprintf(p.out, "  "+format+"\n", args...)
}

func (p *progress) ready() {
	fmt.Fprintf(p.out, "ready in %.2f s\n", time.Since(p.begin).Seconds())
}

func shortDuration(d time.Duration) string {
	if d < time.Second {
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.2f s", d.Seconds())
}
