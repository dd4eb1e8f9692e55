package fakeapi

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"
)

const mediaProto = "application/vnd.kubernetes.protobuf"

// SetPageSize limits every page to n objects, whatever the client asks for.
func (s *Server) SetPageSize(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pageSize = n
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	s.mu.Lock()
	switch {
	case q.Get("watch") == "":
		s.requests.Lists++
	case q.Get("sendInitialEvents") == "true":
		s.requests.StreamingLists++
	default:
		s.requests.Watches++
	}
	intercept := s.intercept
	s.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	sel, err := selectionOf(r)
	if err != nil {
		Fail(w, r, apierrors.NewBadRequest(err.Error()))
		return
	}
	if q.Get("watch") == "" {
		s.list(w, r, sel)
	} else {
		s.watch(w, r, sel)
	}
}

// selection is what a request selects.
type selection struct {
	namespace string
	labels    labels.Selector
	fields    fields.Selector
}

func selectionOf(r *http.Request) (sel selection, err error) {
	switch path := r.URL.Path; {
	case path == "/api/v1/pods":
	case strings.HasPrefix(path, "/api/v1/namespaces/") && strings.HasSuffix(path, "/pods"):
		sel.namespace = strings.Split(path, "/")[4]
	default:
		return sel, fmt.Errorf("no such path: %s", path)
	}
	if sel.labels, err = labels.Parse(r.URL.Query().Get("labelSelector")); err != nil {
		return sel, err
	}
	sel.fields, err = fields.ParseSelector(r.URL.Query().Get("fieldSelector"))
	return sel, err
}

func (s selection) matches(p *corev1.Pod) bool {
	return (s.namespace == "" || s.namespace == p.Namespace) && s.labels.Matches(labels.Set(p.Labels)) &&
		s.fields.Matches(fields.Set{"metadata.name": p.Name, "metadata.namespace": p.Namespace, "spec.nodeName": p.Spec.NodeName})
}

// selected returns the pods that a request selects, ordered by key.
func (s *Server) selectedLocked(sel selection) []*corev1.Pod {
	var out []*corev1.Pod
	for _, p := range s.pods {
		if sel.matches(p) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name)
	})
	return out
}

func (s *Server) list(w http.ResponseWriter, r *http.Request, sel selection) {
	q := r.URL.Query()
	s.mu.Lock()
	pods, rev, page := s.selectedLocked(sel), s.rev, s.pageSize
	s.mu.Unlock()
	if want, _ := strconv.ParseInt(q.Get("resourceVersion"), 10, 64); want > rev {
		Fail(w, r, TooLarge(want, rev))
		return
	}
	l := &corev1.PodList{ListMeta: metav1.ListMeta{ResourceVersion: strconv.FormatInt(rev, 10)}}
	start := 0
	if c := q.Get("continue"); c != "" {
		at, from, _ := strings.Cut(c, ":") // version and first key of the page
		if at != l.ResourceVersion {
			Fail(w, r, apierrors.NewResourceExpired("the provided continue parameter is too old"))
			return
		}
		for start < len(pods) && pods[start].Namespace+"/"+pods[start].Name < from {
			start++
		}
	}
	pods = pods[start:]
	if limit, _ := strconv.Atoi(q.Get("limit")); limit > 0 || page > 0 {
		if page > 0 && (limit == 0 || page < limit) && q.Get("limit") != "" {
			limit = page
		}
		if limit > 0 && len(pods) > limit {
			l.Continue = l.ResourceVersion + ":" + pods[limit].Namespace + "/" + pods[limit].Name
			pods = pods[:limit]
		}
	}
	for _, p := range pods {
		l.Items = append(l.Items, *p)
	}
	respond(w, r, http.StatusOK, l, "PodList")
}

func (s *Server) watch(w http.ResponseWriter, r *http.Request, sel selection) {
	q := r.URL.Query()
	proto := strings.HasPrefix(r.Header.Get("Accept"), mediaProto)
	if proto {
		w.Header().Set("Content-Type", mediaProto+";stream=watch")
	} else {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(http.StatusOK)
	flush := w.(http.Flusher).Flush
	flush()
	send := func(typ string, obj runtime.Object) bool {
		_, err := w.Write(Frame(typ, obj, proto))
		return err == nil
	}
	s.mu.Lock()
	after, _ := strconv.ParseInt(q.Get("resourceVersion"), 10, 64)
	epoch, initial, rev, compacted := s.epoch, s.selectedLocked(sel), s.rev, s.compacted
	next := len(s.log)
	if q.Get("sendInitialEvents") != "true" && after > 0 {
		initial = nil
		next = 0
		for next < len(s.log) && s.log[next].rev <= after {
			next++
		}
	}
	s.mu.Unlock()

	if q.Get("sendInitialEvents") == "true" {
		if after > rev {
			send("ERROR", &TooLarge(after, rev).ErrStatus)
			return
		}
	} else if after > 0 && after < compacted {
		send("ERROR", &apierrors.NewResourceExpired(fmt.Sprintf("too old resource version: %d (%d)", after, compacted)).ErrStatus)
		return
	}
	for _, p := range initial {
		if !send("ADDED", p) {
			return
		}
	}
	if q.Get("sendInitialEvents") == "true" {
		end := &corev1.Pod{}
		end.ResourceVersion = strconv.FormatInt(rev, 10)
		end.Annotations = map[string]string{metav1.InitialEventsAnnotationKey: "true"}
		if !send("BOOKMARK", end) {
			return
		}
	}
	flush()
	timeout, _ := strconv.Atoi(q.Get("timeoutSeconds"))
	var over <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(time.Duration(timeout) * time.Second)
		defer t.Stop()
		over = t.C
	}
	for {
		s.mu.Lock()
		if s.epoch != epoch || next > len(s.log) {
			s.mu.Unlock()
			return
		}
		changes, moved := slices.Clone(s.log[next:]), s.moved
		next = len(s.log)
		s.mu.Unlock()
		for _, c := range changes {
			var obj runtime.Object = c.pod
			if c.typ == "BOOKMARK" {
				b := &corev1.Pod{}
				b.ResourceVersion = strconv.FormatInt(c.rev, 10)
				obj = b
			} else if !sel.matches(c.pod) {
				continue // selected fields of a pod do not change in this server's tests
			}
			if !send(c.typ, obj) {
				return
			}
		}
		flush()
		select {
		case <-moved:
		case <-over:
			return
		case <-r.Context().Done():
			return
		}
	}
}

// TooLarge is the error for a version that the server does not know yet.
func TooLarge(want, have int64) *apierrors.StatusError {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", want, have), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version"}}
	return err
}

// Fail answers with an error.
func Fail(w http.ResponseWriter, r *http.Request, err *apierrors.StatusError) {
	if d := err.ErrStatus.Details; d != nil && d.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(d.RetryAfterSeconds)))
	}
	respond(w, r, int(err.ErrStatus.Code), &err.ErrStatus, "Status")
}

func respond(w http.ResponseWriter, r *http.Request, code int, obj runtime.Object, kind string) {
	obj = obj.DeepCopyObject()
	setKind(obj, kind)
	if strings.HasPrefix(r.Header.Get("Accept"), mediaProto) {
		w.Header().Set("Content-Type", mediaProto)
		w.WriteHeader(code)
		_, _ = w.Write(envelope(obj))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(obj)
}

func setKind(obj runtime.Object, kind string) {
	obj.GetObjectKind().SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
}

func envelope(obj runtime.Object) []byte {
	var b bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(obj, &b); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// Frame encodes one watch event.
func Frame(typ string, obj runtime.Object, proto bool) []byte {
	obj = obj.DeepCopyObject()
	if _, ok := obj.(*metav1.Status); ok {
		setKind(obj, "Status")
	} else {
		setKind(obj, "Pod")
	}
	if !proto {
		b, err := json.Marshal(obj)
		if err != nil {
			panic(err)
		}
		return fmt.Appendf(nil, "{\"type\":%q,\"object\":%s}\n", typ, b)
	}
	ev := &metav1.WatchEvent{Type: typ, Object: runtime.RawExtension{Raw: envelope(obj)}}
	b, err := ev.Marshal()
	if err != nil {
		panic(err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}
