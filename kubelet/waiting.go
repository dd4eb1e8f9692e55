package kubelet

import (
	"fmt"
	"time"
)

// Delays between attempts to start a container for which something is missing. Upstream's are 10 s; what is missing is often there
// a moment later.
const (
	firstRetryDelay = time.Second
	lastRetryDelay  = 10 * time.Second
)

// waiting is why a container could not be started, as its status shows it.
type waiting struct {
	reason, message string

	retry time.Duration // how long this was waited for; 0 for a failed pull
	until time.Time     // when it is tried again

	// Of a failed pull:
	image string
	cause string
	delay time.Duration
}

// pullFailed is what to show after an image could not be pulled; before is what was shown until then, nil at first.
func pullFailed(before *waiting, image, reason string, err error, now time.Time) *waiting {
	w := &waiting{reason: reason, message: err.Error(), image: image, cause: reason + ": " + err.Error(), delay: initialDelay}
	if before.backsOff(image) {
		w.delay = nextDelay(before.delay)
	}
	w.until = now.Add(w.delay)
	return w
}

// shows is how much longer the failure itself is shown.
func (w *waiting) shows(now time.Time) time.Duration {
	return w.until.Add(retryDelay - w.delay).Sub(now)
}

// backsOff says that a pull of this image has failed before.
func (w *waiting) backsOff(image string) bool { return w != nil && w.delay > 0 && w.image == image }

// backOff shows that the next pull is waited for, and says whether it did not before. The failure itself is shown for retryDelay
// first, so that people and watches see it.
func (w *waiting) backOff(now time.Time) (changed bool) {
	if w.reason == "ImagePullBackOff" || w.shows(now) > 0 {
		return false
	}
	w.reason, w.message = "ImagePullBackOff", fmt.Sprintf("Back-off pulling image %q: %s", w.image, w.cause)
	return true
}

// hasBegun says that an attempt of the container has come into being, and to nothing.
func (w *waiting) hasBegun() bool {
	return w != nil && (w.reason == "RunContainerError" || w.reason == "PostStartHookError")
}
