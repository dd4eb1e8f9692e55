package object

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"io"
	"math/rand/v2"
	"testing"
)

// TestPackedStream compares streams that are put together from shared pieces, in any order, with the texts they stand for.
func TestPackedStream(t *testing.T) {
	typ := podType()
	items := clusterPods(t, typ, 30, 5)
	items = append(items, hugePod(t, newRand(1), typ, 99))
	for _, coding := range []Coding{Gzip, Deflate} {
		for seed := range uint64(20) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			s := NewPackedStream(coding)
			var sent, want []byte
			for range rnd.IntN(40) {
				v := items[rnd.IntN(len(items))]
				switch rnd.IntN(5) {
				case 0:
					text := bytes.Repeat([]byte("bookmark "), rnd.IntN(200))
					sent, want = s.AppendText(sent, text), append(want, text...)
				case 1:
					obj, err := v.Protobuf()
					if err != nil {
						t.Fatal(err)
					}
					sent = s.AppendHead(sent, AppendWatchEventProtobufHead(nil, "ADDED", len(obj)))
					sent = appendPacked(t, sent, &s, v, Protobuf, false)
					want = AppendWatchEventProtobuf(want, "ADDED", obj)
				default:
					metadata := rnd.IntN(2) == 0
					obj, err := v.passingForm(JSON, metadata)
					if err != nil {
						t.Fatal(err)
					}
					sent = s.AppendHead(sent, AppendWatchEventJSONHead(nil, "MODIFIED"))
					sent = appendPacked(t, sent, &s, v, JSON, metadata)
					want = AppendWatchEventJSON(want, "MODIFIED", obj)
				}
			}
			got, err := unpack(coding, bytes.NewReader(s.AppendEnd(sent)))
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("%s, seed %d: %d bytes became %d others: %v", coding, seed, len(want), len(got), err)
			}
		}
	}
}

func appendPacked(t *testing.T, dst []byte, s *PackedStream, v *Version, e Encoding, metadata bool) []byte {
	p, err := v.PackedEvent(e, metadata)
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := v.PackedEvent(e, metadata); again != p {
		t.Fatal("packed twice")
	}
	s.Add(p)
	return append(dst, p.Bytes()...)
}

func unpack(coding Coding, r io.Reader) ([]byte, error) {
	var z io.Reader
	var err error
	if coding == Gzip {
		z, err = gzip.NewReader(r)
	} else {
		z, err = zlib.NewReader(r)
	}
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// TestPackedStream_HandsOn: a reader gets each event when its last byte has come, and not when the next one comes.
func TestPackedStream_HandsOn(t *testing.T) {
	items := clusterPods(t, podType(), 3, 5)
	s := NewPackedStream(Gzip)
	r, w := io.Pipe()
	defer r.Close()
	events := make(chan []byte)
	go func() {
		for b := range events {
			if _, err := w.Write(b); err != nil {
				return
			}
		}
	}()
	defer close(events)
	var z *gzip.Reader
	for i, v := range items {
		sent := appendPacked(t, s.AppendHead(nil, AppendWatchEventJSONHead(nil, "ADDED")), &s, v, JSON, false)
		want, err := v.passingForm(JSON, false)
		if err != nil {
			t.Fatal(err)
		}
		want = AppendWatchEventJSON(nil, "ADDED", want)
		if i == 1 {
			sent, want = s.AppendText(nil, []byte("short\n")), []byte("short\n")
		}
		events <- sent
		if z == nil {
			if z, err = gzip.NewReader(r); err != nil {
				t.Fatal(err)
			}
		}
		got := make([]byte, len(want))
		if _, err := io.ReadFull(z, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("event %d: %v", i, err)
		}
	}
}

// BenchmarkPackedEvent packs the events of pods of 4.7 KB JSON; "again" takes what is there.
func BenchmarkPackedEvent(b *testing.B) {
	items := clusterPods(b, podType(), 1000, 20)
	b.Run("first", func(b *testing.B) {
		b.ReportAllocs()
		var size, n int
		for b.Loop() {
			v := items[n%len(items)].At(int64(2_000_000 + n))
			p, err := v.PackedEvent(JSON, false)
			if err != nil {
				b.Fatal(err)
			}
			size += len(p.Bytes())
			n++
		}
		b.ReportMetric(float64(size)/float64(n), "B/event")
	})
	b.Run("again", func(b *testing.B) {
		b.ReportAllocs()
		s := NewPackedStream(Gzip)
		var buf []byte
		for b.Loop() {
			p, err := items[0].PackedEvent(JSON, false)
			if err != nil {
				b.Fatal(err)
			}
			buf = s.AppendHead(buf[:0], []byte(`{"type":"MODIFIED","object":`))
			s.Add(p)
		}
	})
}
