package kubelet

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/tools/reference"

	"vigil/internal/panics"
)

const (
	// eventsLimit bounds the events that wait to be written; those behind are dropped (record.maxQueuedEvents).
	eventsLimit = 1000
	// eventTries is how often an event is written that the API server does not answer to.
	eventTries = 12
	// correlatorLife is how long events are remembered so that the next alike are counted with them (events_cache.go).
	correlatorLife = 10 * time.Minute
)

// events records what happens to the pods of one node, as client-go's broadcaster does, but costs a node to which nothing happens
// nothing: there is a goroutine only while there is something to write, and events are forgotten after correlatorLife of silence.
type events struct {
	client  typedcorev1.EventsGetter
	source  corev1.EventSource
	logger  *slog.Logger
	running *group // the writer runs in it

	mu         sync.Mutex
	ctx        context.Context // nil until begin: events wait
	queue      []*corev1.Event
	busy       bool                    // the writer runs
	correlator *record.EventCorrelator // nil when nothing was written for long
	silence    *time.Timer             // forgets the correlator; nil when there is none
}

var _ record.EventRecorder = (*events)(nil)

// begin lets events be written until ctx ends.
func (e *events) begin(ctx context.Context) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ctx = ctx
	e.wakeLocked()
}

// end forgets what is remembered of events.
func (e *events) end() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.silence != nil {
		e.silence.Stop()
	}
}

// Event implements record.EventRecorder.
func (e *events) Event(object runtime.Object, eventType, reason, message string) {
	e.AnnotatedEventf(object, nil, eventType, reason, "%s", message)
}

// Eventf implements record.EventRecorder.
func (e *events) Eventf(object runtime.Object, eventType, reason, format string, args ...any) {
	e.AnnotatedEventf(object, nil, eventType, reason, format, args...)
}

// AnnotatedEventf implements record.EventRecorder.
func (e *events) AnnotatedEventf(object runtime.Object, annotations map[string]string, eventType, reason, format string, args ...any) {
	about, err := reference.GetReference(scheme.Scheme, object)
	if err != nil {
		e.logger.Warn("the kubelet cannot name the object of an event; the event is dropped", "reason", reason, "error", err)
		return
	}
	now := metav1.Now()
	namespace := about.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", about.Name, now.UnixNano()), Namespace: namespace, Annotations: annotations},
		InvolvedObject: *about, Reason: reason, Message: fmt.Sprintf(format, args...), Type: eventType,
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
		Source: e.source, ReportingController: e.source.Component, ReportingInstance: e.source.Host,
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.queue) >= eventsLimit {
		return
	}
	e.queue = append(e.queue, event)
	e.wakeLocked()
}

func (e *events) wakeLocked() {
	if e.busy || len(e.queue) == 0 || e.ctx == nil || e.ctx.Err() != nil {
		return
	}
	e.busy = true
	ctx := e.ctx
	e.running.Go(func() { e.write(ctx) })
}

// write writes events one after another, in the order in which they happened, until there is none left.
func (e *events) write(ctx context.Context) {
	for {
		e.mu.Lock()
		if len(e.queue) == 0 || ctx.Err() != nil {
			e.busy, e.queue = false, nil
			e.rememberLocked(ctx)
			e.mu.Unlock()
			return
		}
		event := e.queue[0]
		e.queue = e.queue[1:]
		if e.correlator == nil {
			e.correlator = record.NewEventCorrelatorWithOptions(record.CorrelatorOptions{})
		}
		correlator := e.correlator
		e.mu.Unlock()
		if err := panics.Try(e.logger, panics.Node, func() error { return e.writeOne(ctx, correlator, event) }); err != nil && ctx.Err() == nil {
			e.logger.Warn("the kubelet could not write an event; the event is dropped", "object", event.InvolvedObject.Name, "reason", event.Reason, "error", err)
		}
	}
}

// rememberLocked lets events be remembered for a while from now on.
func (e *events) rememberLocked(ctx context.Context) {
	switch {
	case ctx.Err() != nil:
	case e.silence != nil:
		e.silence.Reset(correlatorLife)
	default:
		e.silence = time.AfterFunc(correlatorLife, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			if !e.busy {
				e.correlator = nil
			}
		})
	}
}

func (e *events) writeOne(ctx context.Context, correlator *record.EventCorrelator, event *corev1.Event) error {
	result, err := correlator.EventCorrelate(event)
	if err != nil {
		return fmt.Errorf("correlate: %w", err)
	}
	if result.Skip {
		return nil
	}
	for wait, try := time.Second, 1; ; wait, try = min(2*wait, 10*time.Second), try+1 {
		written, err := e.send(ctx, result)
		if err == nil {
			correlator.UpdateState(written)
			return nil
		}
		if status := apierrors.APIStatus(nil); try == eventTries || errors.As(err, &status) && !apierrors.IsTooManyRequests(err) {
			return err // whoever answers does not want it
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// send makes an event, or counts one more.
func (e *events) send(ctx context.Context, result *record.EventCorrelateResult) (*corev1.Event, error) {
	client := e.client.Events(result.Event.Namespace)
	if result.Event.Count > 1 {
		written, err := client.Patch(ctx, result.Event.Name, types.StrategicMergePatchType, result.Patch, metav1.PatchOptions{})
		if !apierrors.IsNotFound(err) {
			return written, err
		}
	}
	event := *result.Event
	event.ResourceVersion = ""
	return client.Create(ctx, &event, metav1.CreateOptions{})
}
