package main

import (
	"encoding/binary"
	"errors"
	"sync"
	"time"

	"vigil/internal/protobuf"
)

// census watches a resource and knows which of its objects exist and which of them have the condition Ready. It reads
// the protobuf of the events without decoding it: the client shares the machine with what it measures.
type census struct {
	resource string // for instance "pods"

	mu      sync.Mutex
	ready   map[string]bool // by namespace/name; false: exists and is not ready
	nready  int
	changed chan struct{} // closed at every change
	err     error         // why the watch ended
}

// takeCensus watches path, from what exists now.
func takeCensus(resource, path string) (*census, error) {
	c, err := dial(o.target, reads)
	if err != nil {
		return nil, err
	}
	w := &watcher{c: c, raw: c.c}
	proto := o.proto
	o.proto = true
	defer func() { o.proto = proto }()
	if err := w.open(path + "?watch=true"); err != nil {
		c.close()
		return nil, err
	}
	s := &census{resource: resource, ready: map[string]bool{}, changed: make(chan struct{})}
	go func() {
		var f frames
		for {
			done, err := c.next(func(p []byte) { f.feed(p, s.event) })
			if done && err == nil {
				err = errors.New("the server ended the watch")
			}
			if err != nil {
				s.mu.Lock()
				s.err = err
				close(s.changed)
				s.changed = make(chan struct{})
				s.mu.Unlock()
				return
			}
		}
	}()
	return s, nil
}

// event takes one metav1.WatchEvent.
func (s *census) event(b []byte) {
	object := sub(sub(b, 2), 1)
	if len(object) < 4 || string(object[:4]) != "k8s\x00" {
		return
	}
	object = sub(object[4:], 2)
	meta := sub(object, 1)
	name := string(sub(meta, 3)) + "/" + string(sub(meta, 1))
	deleted := string(sub(b, 1)) == "DELETED"
	ready := !deleted && isReady(object, map[string]int32{"pods": 2, "nodes": 4}[s.resource])
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ready[name] != ready {
		if s.nready++; !ready {
			s.nready -= 2
		}
	}
	if s.ready[name] = ready; deleted {
		delete(s.ready, name)
	}
	close(s.changed)
	s.changed = make(chan struct{})
}

// await waits until the numbers of objects and of ready ones are as wanted, and returns when that was.
func (s *census) await(limit time.Duration, want func(all, ready int) bool) (time.Time, error) {
	deadline := time.After(limit)
	for {
		s.mu.Lock()
		all, ready, changed, err := len(s.ready), s.nready, s.changed, s.err
		s.mu.Unlock()
		switch {
		case want(all, ready):
			return time.Now(), nil
		case err != nil:
			return time.Time{}, err
		}
		select {
		case <-changed:
		case <-deadline:
			return time.Time{}, errors.New(s.resource + ": it takes longer than " + limit.String())
		}
	}
}

// isReady says whether an object's status has the condition Ready; its conditions have the given field number.
func isReady(object []byte, conditions int32) bool {
	status := sub(object, 3)
	for i := 0; ; {
		f, ok := protobuf.Next(status, i)
		if !ok {
			return false
		}
		if i = f.End; f.Num != conditions || f.Type != protobuf.Bytes {
			continue
		}
		c := status[f.Start:f.End]
		if string(sub(c, 1)) == "Ready" {
			return string(sub(c, 2)) == "True"
		}
	}
}

// sub is the first field of b with a number, if it is bytes.
func sub(b []byte, number int32) []byte {
	for i := 0; ; {
		f, ok := protobuf.Next(b, i)
		if !ok {
			return nil
		}
		if f.Num == number && f.Type == protobuf.Bytes {
			return b[f.Start:f.End]
		}
		i = f.End
	}
}

// frames cuts a stream into what a length of four bytes precedes.
type frames struct{ rest []byte }

func (f *frames) feed(p []byte, each func([]byte)) {
	f.rest = append(f.rest, p...)
	b := f.rest
	for len(b) >= 4 {
		n := int(binary.BigEndian.Uint32(b))
		if len(b)-4 < n {
			break
		}
		each(b[4 : 4+n])
		b = b[4+n:]
	}
	f.rest = append(f.rest[:0], b...)
}
