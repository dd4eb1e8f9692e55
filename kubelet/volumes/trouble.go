package volumes

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"vigil/kubelet"
)

const (
	// patience is after how long upstream says which volumes of a pod it waits for, again and again
	// (podAttachAndMountTimeout in pkg/kubelet/volumemanager).
	patience = 2*time.Minute + 3*time.Second
	// firstPause and longestPause bound how long volumes that cannot be made are left alone; the pause doubles
	// (pkg/util/goroutinemap/exponentialbackoff).
	firstPause   = 500 * time.Millisecond
	longestPause = 2*time.Minute + 2*time.Second
)

// unprocessed is an error of a volume that could not be told what it is: nothing was tried to mount it.
type unprocessed struct{ err error }

func (e *unprocessed) Error() string { return e.err.Error() }
func (e *unprocessed) Unwrap() error { return e.err }

// failure is a volume that cannot be made, and why.
type failure struct {
	name string
	err  error
}

// trouble is what keeps a pod from its volumes. The zero value is none.
type trouble struct {
	began    time.Time // when what is waited for was first asked for, or last spoken of
	pause    time.Duration
	until    time.Time // when it is time for another try
	usable   bool      // all volumes are there, with old contents
	messages []string
}

// again is the error of a Mount that tried nothing.
func (t *trouble) again(now time.Time) error {
	return &kubelet.VolumeError{Messages: t.messages, Told: true, Usable: t.usable, Again: t.until.Sub(now)}
}

// report makes the error of a Mount that failed, with the words of upstream's events.
func (t *trouble) report(failures []failure, usable bool, now time.Time) error {
	if t.began.IsZero() {
		t.began = now
	}
	t.pause = min(max(2*t.pause, firstPause), longestPause)
	t.until, t.usable, t.messages = now.Add(t.pause), usable, nil
	var unmounted, unread, reasons []string
	for _, f := range failures {
		unmounted = append(unmounted, f.name)
		var early *unprocessed
		if errors.As(f.err, &early) {
			unread, reasons = append(unread, f.name), append(reasons, early.Error())
			continue
		}
		t.messages = append(t.messages, f.err.Error())
	}
	late := !usable && now.Sub(t.began) >= patience
	if late {
		t.began = now
	}
	if late || len(unread) > 0 {
		slices.Sort(unmounted)
		slices.Sort(unread)
		why := "timed out waiting for the condition"
		if len(reasons) > 0 {
			why = strings.Join(reasons, "; ")
		}
		t.messages = append(t.messages, fmt.Sprintf(
			"Unable to attach or mount volumes: unmounted volumes=%v, unattached volumes=[], failed to process volumes=%v: %s", unmounted, unread, why))
	}
	return &kubelet.VolumeError{Messages: t.messages, Usable: usable, Again: t.pause}
}
