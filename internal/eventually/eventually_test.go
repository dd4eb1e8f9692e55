package eventually

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// failing is a test that notes how it fails.
type failing struct {
	testing.TB
	said string
}

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) {
	f.said = fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// fails runs a test that should fail, and returns how it did.
func fails(test func(testing.TB)) string {
	f := &failing{}
	var running sync.WaitGroup
	running.Go(func() { test(f) })
	running.Wait()
	return f.said
}

func TestWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		so := func() bool { return time.Since(begin) >= Limit-time.Second }
		True(t, "time passes", so)
		Nil(t, "time has passed", func() error {
			if !so() {
				t.Error("True has not waited")
			}
			return nil
		})
		if took := time.Since(begin); took > Limit {
			t.Errorf("it waited for %v", took)
		}
	})
}

func TestGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin, tries := time.Now(), 0
		said := fails(func(tb testing.TB) {
			Nil(tb, "the cat comes", func() error {
				tries++
				return errors.New("only the dog is here")
			})
		})
		if want := "not within 5m0s: the cat comes: only the dog is here"; said != want {
			t.Errorf("it failed with %q, want %q", said, want)
		}
		if took := time.Since(begin); took < Limit || took > Limit+most || tries < int(Limit/most) {
			t.Errorf("it tried %d times in %v", tries, took)
		}
		if said, want := fails(func(tb testing.TB) { True(tb, "the cat comes", func() bool { return false }) }), "not within 5m0s: the cat comes"; said != want {
			t.Errorf("it failed with %q, want %q", said, want)
		}
	})
}
