package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/scheme"
)

const protobuf = "application/vnd.kubernetes.protobuf"

// firstVersion is the version of the first update. All versions of updates have its eight digits.
const firstVersion = 10_000_000

// source is an http.RoundTripper that answers a watch with initial events with
// all pods, and then sends as many updates as it is told to. The last update is
// always one of the sentinel, the last pod of the initial state.
type source struct {
	sentinel string // key
	initial  []byte
	updates  [][]byte // frames, sent in turn, each time with a new version
	last     []byte   // the sentinel's
	send     chan int
}

// newSource makes n pods like a stored one.
func newSource(template string, n int) (*source, error) {
	stored, err := os.ReadFile(template)
	if err != nil {
		return nil, err
	}
	var envelope runtime.Unknown
	var like corev1.Pod
	if err := envelope.Unmarshal(bytes.TrimPrefix(stored, []byte("k8s\x00"))); err != nil {
		return nil, fmt.Errorf("%s: %w", template, err)
	}
	if err := like.Unmarshal(envelope.Raw); err != nil {
		return nil, fmt.Errorf("%s: %w", template, err)
	}
	pod := func(i, version int) *corev1.Pod {
		p := like.DeepCopy()
		p.Namespace, p.Name = "ns-"+strconv.Itoa(i%50), fmt.Sprintf("web-frontend-7d4b9c6f58-%06d", i)
		p.UID = types.UID(fmt.Sprintf("6c1f0e5e-58c6-4a4e-9a0c-%012x", i))
		p.Spec.NodeName = "node-" + strconv.Itoa(i%5000)
		p.ResourceVersion = strconv.Itoa(version)
		return p
	}
	last := pod(n-1, firstVersion)
	s := &source{sentinel: last.Namespace + "/" + last.Name, send: make(chan int)}
	if s.last, err = frame(watch.Modified, last); err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	for i := range n {
		b, err := frame(watch.Added, pod(i, 1000+i))
		if err != nil {
			return nil, err
		}
		buf.Write(b)
	}
	end, err := frame(watch.Bookmark, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ResourceVersion: strconv.Itoa(1000 + n),
		Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}})
	if err != nil {
		return nil, err
	}
	buf.Write(end)
	s.initial = buf.Bytes()
	for i := range min(n-1, 10000) {
		b, err := frame(watch.Modified, pod(i*7919%(n-1), firstVersion))
		if err != nil {
			return nil, err
		}
		s.updates = append(s.updates, b)
	}
	return s, nil
}

// frame is an event as a watch in protobuf has it: a length and a meta.v1 WatchEvent.
func frame(typ watch.EventType, pod *corev1.Pod) ([]byte, error) {
	info, ok := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(), protobuf)
	if !ok {
		return nil, fmt.Errorf("no serializer for %s", protobuf)
	}
	var object, event bytes.Buffer
	if err := scheme.Codecs.EncoderForVersion(info.Serializer, corev1.SchemeGroupVersion).Encode(pod, &object); err != nil {
		return nil, err
	}
	if err := info.StreamSerializer.Serializer.Encode(&metav1.WatchEvent{Type: string(typ), Object: runtime.RawExtension{Raw: object.Bytes()}}, &event); err != nil {
		return nil, err
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(event.Len())), event.Bytes()...), nil
}

func (s *source) eventBytes() int { return len(s.updates[0]) }

// RoundTrip implements http.RoundTripper.
func (s *source) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("sendInitialEvents") != "true" {
		return nil, fmt.Errorf("not expected: %s", r.URL)
	}
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Request: r, Proto: "HTTP/2.0", ProtoMajor: 2,
		Header: http.Header{"Content-Type": {protobuf + ";stream=watch"}},
		Body:   &stream{source: s, ctx: r.Context(), rest: s.initial},
	}, nil
}

// stream is the body of the watch.
type stream struct {
	*source
	ctx   context.Context
	rest  []byte // of what is being sent
	left  int    // updates to come
	sent  int
	frame []byte
}

// Read gives at most one TLS record's worth, filled, as a busy connection does.
func (s *stream) Read(p []byte) (int, error) {
	p = p[:min(len(p), 16<<10)]
	for len(s.rest) == 0 && s.left == 0 {
		select {
		case s.left = <-s.send:
		case <-s.ctx.Done():
			return 0, io.EOF
		}
	}
	n := 0
	for n < len(p) && (len(s.rest) > 0 || s.left > 0) {
		if len(s.rest) == 0 {
			s.next()
		}
		m := copy(p[n:], s.rest)
		s.rest, n = s.rest[m:], n+m
	}
	return n, nil
}

// next makes the next update what is being sent, with a version of its own.
func (s *stream) next() {
	s.left--
	update := s.updates[s.sent%len(s.updates)]
	if s.left == 0 {
		update = s.last
	}
	s.frame = append(s.frame[:0], update...)
	at := bytes.Index(s.frame, []byte(strconv.Itoa(firstVersion)))
	strconv.AppendInt(s.frame[:at], int64(firstVersion+s.sent), 10)
	s.rest = s.frame
	s.sent++
}

func (s *stream) Close() error { return nil }
