package informer

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/informer/internal/wire"
)

// reflector makes an informer hold what the server has. It is in one of two states, and changes between them like this:
//
//	        streaming list, or paged list ok
//	┌──────┐ ───────────────────────────────> ┌──────┐ ── end of stream, network error, 429, 5xx:
//	│ sync │                                  │ watch│    watch again from the last version ──┐
//	└──────┘ <─────────────────────────────── └──────┘ <──────────────────────────────────────┘
//	        410, a version refused, a stream that cannot be followed
//
// All its methods run in one goroutine.
type reflector struct {
	inf     *Informer
	client  *client
	logger  *slog.Logger
	metrics *resourceMetrics
	timing  timing

	version []byte // up to which the informer is complete: events and bookmarks move it on; empty before the first sync
	current bool   // the informer is complete up to version, and the server may still have what came after it
	// anyVersion asks the next sync for the server's newest state instead of one not older than version, because the
	// server does not know version (any more, or yet).
	anyVersion bool
	paged      bool      // the next sync is a paged list: the server refused a streaming one, or could not finish it
	usedPages  bool      // the last attempt was one
	brokenOff  int       // streaming lists in a row that ended before all initial events had come
	syncedAt   time.Time // when the last sync was complete
}

// run keeps the informer up to date until ctx ends.
func (r *reflector) run(ctx context.Context) {
	wait := backoff{min: r.timing.backoffMin, max: r.timing.backoffMax}
	failing := false
	for ctx.Err() == nil {
		progress, err := r.once(ctx)
		if ctx.Err() != nil {
			return
		}
		if progress {
			wait.reset()
			failing = false
		}
		if r.judge(err) || (progress && endedByConnection(err)) {
			continue
		}
		d := max(wait.next(), retryAfter(err))
		level := slog.LevelDebug
		if !failing {
			level, failing = slog.LevelWarn, true
		}
		r.logger.Log(ctx, level, "the list or watch of a resource was interrupted; the informer tries again", "error", err, "retryIn", d.Round(time.Millisecond))
		sleep(ctx, d)
	}
}

// once syncs if it must, and follows one watch to its end. It says whether the watch was good for something: it brought
// events or lasted. The error is never nil; it is io.EOF when the server ended the watch.
func (r *reflector) once(ctx context.Context) (progress bool, err error) {
	timeout := r.timing.watchTimeout()
	ctx, cancel := context.WithTimeout(ctx, timeout+r.timing.watchGrace)
	defer cancel()

	var w *watch
	if r.usedPages = r.paged && !r.current; r.usedPages {
		r.paged = false
		if err := r.list(ctx); err != nil {
			return false, err
		}
	}
	if r.current {
		w, err = r.resume(ctx, timeout)
	} else {
		w, err = r.streamingList(ctx, timeout)
	}
	if err != nil {
		return false, err
	}
	defer w.Close()
	start := time.Now()
	events, err := r.follow(w)
	if errors.Is(err, context.DeadlineExceeded) {
		err = io.EOF // the server forgot to end it
	}
	return events > 0 || time.Since(start) >= r.timing.shortWatch, err
}

// judge decides from the end of one attempt what the next one is. It returns true when that has a better chance and may be
// made at once. A list that was of no use for long is never repeated at once.
func (r *reflector) judge(err error) (again bool) {
	listHelped := time.Since(r.syncedAt) >= r.timing.backoffMin
	switch {
	case expired(err), versionTooLarge(err):
		if r.current {
			// First ask for a state not older than what is here, so that nobody sees time go backwards.
			r.current, r.anyVersion = false, versionTooLarge(err)
			return listHelped
		}
		again = !r.anyVersion
		r.anyVersion = true
	case refused(err):
		switch {
		case r.current: // a watch from a version that means nothing to the server
			r.current, r.anyVersion = false, true
			again = listHelped
		case !r.usedPages:
			r.paged, again = true, true
		}
	case errors.Is(err, errTimeTravel):
		r.current, r.anyVersion = false, true
	case errors.Is(err, wire.ErrMalformed), errors.Is(err, wire.ErrTooLarge):
		r.current = false
	case errors.Is(err, errBrokenOff):
		if r.brokenOff++; r.brokenOff >= 3 {
			r.brokenOff, r.paged = 0, true
		}
	}
	return again
}

// endedByConnection says that a watch ended because its connection did, in order or not. Nothing speaks against a new one.
func endedByConnection(err error) bool {
	var s apierrors.APIStatus
	return !errors.As(err, &s) && !errors.Is(err, wire.ErrMalformed) && !errors.Is(err, wire.ErrTooLarge) && !errors.Is(err, errTimeTravel)
}

// errTimeTravel says that the server's versions went back behind what it had said before: its data was restored.
var errTimeTravel = errors.New("the server went back to an older version")

// errBrokenOff says that a streaming list ended before its initial events did.
var errBrokenOff = errors.New("the streaming list ended too early")

// expired says that the server no longer has the history after a version (410).
func expired(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// versionTooLarge says that the server does not know a version yet (504).
func versionTooLarge(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge) ||
		(apierrors.IsTimeout(err) && hasCauseMessage(err, "Too large resource version"))
}

func hasCauseMessage(err error, message string) bool {
	var s apierrors.APIStatus
	if !errors.As(err, &s) || s.Status().Details == nil {
		return false
	}
	for _, c := range s.Status().Details.Causes {
		if c.Message == message {
			return true
		}
	}
	return false
}

// refused says that the server understood a request and will never do what it asks.
func refused(err error) bool {
	var s apierrors.APIStatus
	if !errors.As(err, &s) {
		return false
	}
	switch s.Status().Code {
	case http.StatusBadRequest, http.StatusMethodNotAllowed, http.StatusNotAcceptable,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity, http.StatusNotImplemented:
		return true
	}
	return false
}

// retryAfter is how long the server asks to be left alone.
func retryAfter(err error) time.Duration {
	if s, ok := apierrors.SuggestsClientDelay(err); ok {
		return time.Duration(s) * time.Second
	}
	return 0
}

// older says that version a is before b. Versions that are no numbers are never older.
func older(a, b []byte) bool {
	x, err1 := strconv.ParseUint(string(a), 10, 64)
	y, err2 := strconv.ParseUint(string(b), 10, 64)
	return err1 == nil && err2 == nil && x < y
}
