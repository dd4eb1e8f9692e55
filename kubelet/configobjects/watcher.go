package configobjects

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"vigil/internal/panics"
)

// watcher follows one object.
type watcher struct {
	store *Store
	key   key

	// Guarded by the store's lock.
	pods   map[types.UID]struct{} // that name the object
	idle   time.Time              // since when there are none
	cancel context.CancelFunc     // ends run

	known chan struct{} // closed when something is known of the object
	done  chan struct{} // closed when the object is watched no longer

	mu      sync.Mutex // only run's goroutine writes the next two
	encoded []byte     // protobuf, without managed fields; never changed
	err     error      // why there is none
	missed  bool       // a read did not wait long enough

	// Used by run's goroutine only.
	version string // up to which the object is known; "": not, or too long ago
	taken   int    // how many versions there have been
	settled bool   // known is closed
	frozen  bool   // the object is immutable
}

func newWatcher(s *Store, k key) *watcher {
	return &watcher{store: s, key: k, pods: map[types.UID]struct{}{}, cancel: func() {}, known: make(chan struct{}), done: make(chan struct{})}
}

// wait returns what is known of the object, after waiting for the first answer for at most the given time.
func (w *watcher) wait(ctx context.Context, most time.Duration) ([]byte, error) {
	select {
	case <-w.known:
	default:
		ctx, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		select {
		case <-w.known:
		case <-ctx.Done():
			w.mu.Lock()
			w.missed = true
			w.mu.Unlock()
			return nil, fmt.Errorf("failed to sync %s cache: timed out waiting for the condition", w.key.kind.singular())
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.encoded, w.err
}

// set takes in what became of the object, and tells if that is news. The first answer is none for those who are waiting for it.
func (w *watcher) set(encoded []byte, err error) {
	w.mu.Lock()
	news := w.missed
	if w.settled {
		news = news || err == nil || w.err == nil || err.Error() != w.err.Error()
	}
	w.encoded, w.err, w.missed = encoded, err, false
	w.mu.Unlock()
	if !w.settled {
		w.settled = true
		close(w.known)
	}
	if news {
		w.store.tell(w)
	}
}

// notFound is what reads of an object that does not exist get.
func (w *watcher) notFound() error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: w.key.kind.singular()}, w.key.name)
}

// run keeps the object up to date until ctx ends or it can no longer change.
func (w *watcher) run(ctx context.Context) {
	defer close(w.done)
	pause := w.store.timing.retry
	for ctx.Err() == nil && !w.frozen {
		began, before := time.Now(), w.taken
		err := panics.Try(w.store.logger, panics.Node, func() error { return w.follow(ctx) }, "resource", w.key.kind.resource(), "namespace", w.key.namespace, "name", w.key.name)
		if ctx.Err() != nil {
			return
		}
		if w.judge(err) || w.taken > before || time.Since(began) > time.Minute {
			pause = w.store.timing.retry // it was good for something
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			w.version = ""
		}
		// Not all watches of a connection that was lost come back at the same moment.
		sleep(ctx, pause/2+rand.N(pause))
		pause = min(2*pause, w.store.timing.most)
	}
}

// judge takes in the error with which a watch ended. It says whether that was an orderly end.
func (w *watcher) judge(err error) (orderly bool) {
	if errors.Is(err, io.EOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return true
	}
	var status apierrors.APIStatus
	switch answered := errors.As(err, &status); {
	case answered && status.Status().Code < 500 && status.Status().Code != 429:
		w.version = ""
		w.set(nil, err) // it says no; what was known before is no longer ours to show
	case w.version == "" && w.encoded == nil:
		w.set(nil, fmt.Errorf("failed to sync %s cache: %w", w.key.kind.singular(), err))
	}
	w.store.logger.Debug("the watch of an object that pods use was interrupted; the kubelet tries again", "resource", w.key.kind.resource(), "namespace", w.key.namespace, "name", w.key.name, "error", err)
	return false
}

// follow watches the object until the stream ends. The error is never nil, io.EOF for an orderly end.
func (w *watcher) follow(ctx context.Context) error {
	timing := w.store.timing
	lasts := timing.watch + rand.N(timing.watch)
	ctx, cancel := context.WithTimeout(ctx, lasts+time.Minute) // should the server forget to end it
	defer cancel()
	initial := w.version == ""
	body, err := w.open(ctx, lasts)
	if err != nil {
		return err
	}
	defer body.Close()

	exists := false // among the initial events
	for !w.frozen {
		event, err := readEvent(body)
		if err != nil {
			return err
		}
		switch watch.EventType(event.Type) {
		case watch.Added, watch.Modified:
			exists = true
			if err := w.take(event.Object.Raw); err != nil {
				return err
			}
		case watch.Deleted:
			if err := w.gone(event.Object.Raw); err != nil {
				return err
			}
		case watch.Bookmark:
			meta, err := decode(event.Object.Raw, &metav1.PartialObjectMetadata{})
			if err != nil {
				return err
			}
			if initial && meta.Annotations[metav1.InitialEventsAnnotationKey] == "true" {
				if initial = false; !exists {
					w.set(nil, w.notFound())
				}
			}
			if !initial {
				w.version = meta.ResourceVersion
			}
		case watch.Error:
			status, err := decode(event.Object.Raw, &metav1.Status{})
			if err != nil {
				return err
			}
			return &apierrors.StatusError{ErrStatus: *status}
		}
	}
	return io.EOF
}

// open opens a watch that lasts for some time. It does so in a goroutine of its own: the stack that it takes is ten times what the one
// that then waits for events needs, and there are hundreds of those.
func (w *watcher) open(ctx context.Context, lasts time.Duration) (io.ReadCloser, error) {
	request := w.store.client.Get().Namespace(w.key.namespace).Resource(w.key.kind.resource()).
		Param("watch", "true").
		Param("fieldSelector", "metadata.name="+w.key.name).
		Param("allowWatchBookmarks", "true").
		Param("timeoutSeconds", strconv.Itoa(max(1, int(lasts/time.Second)))).
		SetHeader("Accept", "application/vnd.kubernetes.protobuf;stream=watch")
	if w.version == "" {
		request.Param("sendInitialEvents", "true").Param("resourceVersionMatch", string(metav1.ResourceVersionMatchNotOlderThan))
	} else {
		request.Param("resourceVersion", w.version)
	}
	var body io.ReadCloser
	var err error
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		body, err = request.Stream(ctx)
	}()
	<-opened
	return body, err
}

// take takes in a version of the object.
func (w *watcher) take(raw []byte) error {
	var meta *metav1.ObjectMeta
	var object message
	var immutable *bool
	if w.key.kind == secrets {
		secret, err := decode(raw, &corev1.Secret{})
		if err != nil {
			return err
		}
		meta, object, immutable = &secret.ObjectMeta, secret, secret.Immutable
	} else {
		configMap, err := decode(raw, &corev1.ConfigMap{})
		if err != nil {
			return err
		}
		meta, object, immutable = &configMap.ObjectMeta, configMap, configMap.Immutable
	}
	meta.ManagedFields = nil
	encoded, err := object.Marshal()
	if err != nil {
		return fmt.Errorf("encode %s: %w", w.key.kind.singular(), err)
	}
	w.version = meta.ResourceVersion
	w.taken++
	w.frozen = immutable != nil && *immutable && meta.DeletionTimestamp == nil
	w.set(encoded, nil)
	return nil
}

// gone takes in that the object was deleted.
func (w *watcher) gone(raw []byte) error {
	meta, err := decode(raw, &metav1.PartialObjectMetadata{})
	if err != nil {
		return err
	}
	w.version = meta.ResourceVersion
	w.set(nil, w.notFound())
	return nil
}

// decode reads an object as events carry it: in an envelope that begins with "k8s\0". Types that are read as a
// PartialObjectMetadata have their metadata in the same place.
func decode[T message](raw []byte, into T) (T, error) {
	var envelope runtime.Unknown
	if len(raw) < 4 || string(raw[:4]) != "k8s\x00" {
		return into, errors.New("an object in a watch is not protobuf")
	}
	if err := envelope.Unmarshal(raw[4:]); err != nil {
		return into, fmt.Errorf("decode an object in a watch: %w", err)
	}
	if err := into.Unmarshal(envelope.Raw); err != nil {
		return into, fmt.Errorf("decode an object in a watch: %w", err)
	}
	return into, nil
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
