package main

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
)

// Every way of cutting a stream into reads must give the same events.
func TestScanner_AnyCut(t *testing.T) {
	stamp := func(seq int) string { return fmt.Sprintf("%019d.%07d", 1_700_000_000_000_000_000+seq, seq) }
	event := func(seq int) string {
		return `{"type":"MODIFIED","object":{"metadata":{"annotations":{"bench/ts":"` + stamp(seq) + `","x":"y"},"managedFields":[{"f:bench/ts":{}}]}}}`
	}
	for _, proto := range []bool{false, true} {
		var stream []byte
		for seq := range 5 {
			if proto {
				body := "\n\bMODIFIED" + "\n\x08bench/ts\x12\x1b" + stamp(seq) + "f:bench/ts"
				stream = append(binary.BigEndian.AppendUint32(stream, uint32(len(body))), body...)
			} else {
				stream = append(stream, event(seq)+"\n"...)
			}
		}
		for cut := 1; cut < 200; cut++ {
			var seen []int
			s := scanner{proto: proto, needle: []byte(stampKey), found: func(ns int64, seq int) {
				if ns != 1_700_000_000_000_000_000+int64(seq) {
					t.Errorf("proto %t, cut %d: event %d has time %d", proto, cut, seq, ns)
				}
				seen = append(seen, seq)
			}}
			for part := range slices.Chunk(stream, cut) {
				s.feed(part)
			}
			if s.events != 5 || !slices.Equal(seen, []int{0, 1, 2, 3, 4}) {
				t.Fatalf("proto %t, cut %d: %d events, stamps %v", proto, cut, s.events, seen)
			}
		}
	}
}

func TestScanner_Needle(t *testing.T) {
	s := scanner{needle: []byte("initial-events-end")}
	for part := range slices.Chunk([]byte(`{"type":"ADDED"}`+"\n"+`{"type":"BOOKMARK","a":{"k8s.io/initial-events-end":"true"}}`+"\n"), 7) {
		s.feed(part)
	}
	if !s.sawEnd || s.events != 2 {
		t.Errorf("end seen: %t, events: %d", s.sawEnd, s.events)
	}
}
