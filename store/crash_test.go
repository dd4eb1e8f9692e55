package store_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"vigil/store"
	"vigil/store/storetest"
)

var (
	crashRounds = flag.Int("crash.rounds", 5, "times the crash test kills its child")
	crashSeed   = flag.Uint64("crash.seed", 0, "seed of the crash test, 0 takes one from the clock")
)

const (
	childEnv     = "VIGIL_STORE_TEST_CHILD" // "crash DIR ROUND" or "full DIR"
	crashWorkers = 16
)

// TestCrash kills a process with an embedded etcd in it, at random moments, while 16 goroutines write. Every write
// that was acknowledged must be there afterwards, at its revision, in the list and in the history.
func TestCrash(t *testing.T) {
	seed := *crashSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d (-crash.seed)", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	dir := filepath.Join(t.TempDir(), "etcd")
	acked := map[string]int64{} // key to revision, over all rounds
	latest := map[string]ack{}  // counters' last acknowledged value, of this round
	for round := range *crashRounds {
		atLeast := 50 + rnd.IntN(2000)
		extra := time.Duration(rnd.IntN(3000)) * time.Microsecond
		n := crash(t, dir, round, atLeast, extra, acked, latest)
		checkAfterCrash(t, dir, acked, latest)
		clear(latest)
		if t.Failed() {
			t.Fatalf("round %d, killed after %d writes", round, n)
		}
	}
	t.Logf("%d acknowledged creates over %d kills", len(acked), *crashRounds)
}

type ack struct {
	value int
	rev   int64
}

// crash runs the child until it acknowledged atLeast writes and extra went by, then kills it.
func crash(t *testing.T, dir string, round, atLeast int, extra time.Duration, acked map[string]int64, latest map[string]ack) int {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=crash %s %d", childEnv, dir, round))
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var key string
		var value int
		var rev int64
		if _, err := fmt.Sscanf(lines.Text(), "%s %d %d.", &key, &value, &rev); err != nil {
			continue // cut off by the kill
		}
		if strings.HasPrefix(key, "/registry/counters/") {
			latest[key] = ack{value, rev}
		} else {
			acked[key] = rev
		}
		if n++; n == atLeast {
			time.AfterFunc(extra, func() { cmd.Process.Kill() })
		}
	}
	cmd.Wait() // says "signal: killed"
	if n < atLeast {
		t.Fatalf("child ended after %d writes, want %d", n, atLeast)
	}
	return n
}

func checkAfterCrash(t *testing.T, dir string, acked map[string]int64, latest map[string]ack) {
	t.Helper()
	start := time.Now()
	e, err := store.StartEmbedded(t.Context(), store.EmbeddedConfig{DataDir: dir, Logger: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	t.Logf("restarted in %v", time.Since(start))
	s, err := store.Open(t.Context(), store.Config{Embedded: e})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	list, err := s.List(t.Context(), "/registry/", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	stored := map[string]store.KV{}
	for _, kv := range list.KVs {
		stored[kv.Key] = kv
	}
	for key, rev := range acked {
		if kv, ok := stored[key]; !ok || kv.ModRev != rev {
			t.Errorf("%s was acknowledged at revision %d, is at %d (there: %v)", key, rev, kv.ModRev, ok)
		}
	}
	for key, a := range latest {
		// The next write of a counter may have happened without an acknowledgement.
		kv, ok := stored[key]
		value, _ := strconv.Atoi(string(kv.Value))
		same := ok && value == a.value && kv.ModRev == a.rev
		next := ok && value == a.value+1 && kv.ModRev > a.rev
		if a.value%10 == 0 { // a tenth value is a deletion
			same = !ok
		}
		if (a.value+1)%10 == 0 {
			next = !ok
		}
		if !same && !next {
			t.Errorf("%s was acknowledged as %d at revision %d, is %q at %d (there: %v)", key, a.value, a.rev, kv.Value, kv.ModRev, ok)
		}
	}
	// History has one event for every revision, in order.
	r := storetest.Record(t.Context(), t, s, 1)
	events := r.WaitFor(t, list.Rev)
	for i, ev := range events {
		if ev.ModRev != events[0].ModRev+int64(i) {
			t.Fatalf("event %d has revision %d, want %d", i, ev.ModRev, events[0].ModRev+int64(i))
		}
	}
	if len(events) == 0 || events[len(events)-1].ModRev != list.Rev {
		t.Errorf("%d events do not reach revision %d", len(events), list.Rev)
	}
}

// runChild is the process to be killed, or to be starved.
func runChild(args string) int {
	fields := strings.Fields(args)
	var err error
	switch fields[0] {
	case "crash":
		err = writeUntilKilled(fields[1], fields[2])
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// writeUntilKilled prints a line for every write that etcd acknowledged: key, value, revision.
func writeUntilKilled(dir, round string) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	e, err := store.StartEmbedded(ctx, store.EmbeddedConfig{DataDir: dir})
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, store.Config{Embedded: e})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	say := func(key string, value int, rev int64) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(os.Stdout, "%s %d %d.\n", key, value, rev)
	}
	errs := make(chan error)
	for w := range crashWorkers {
		go func() { errs <- writeMuch(ctx, s, fmt.Sprintf("%s/%d", round, w), say) }()
	}
	return <-errs
}

// writeMuch creates keys, and counts up another one, whose tenth values are deletions.
func writeMuch(ctx context.Context, s *store.Store, name string, say func(key string, value int, rev int64)) error {
	counter := "/registry/counters/" + name
	var at int64
	for n := 1; ; n++ {
		key := fmt.Sprintf("/registry/pods/%s/%d", name, n)
		rev, err := s.Create(ctx, key, storetest.Value(n, 1000), 0)
		if err != nil {
			return err
		}
		say(key, n, rev)
		if n%10 == 0 {
			if rev, err = s.Delete(ctx, counter, at); err == nil {
				at = 0
			}
		} else if rev, err = s.Update(ctx, counter, []byte(strconv.Itoa(n)), at, 0); err == nil {
			at = rev
		}
		if err != nil {
			return err
		}
		say(counter, n, rev)
	}
}
