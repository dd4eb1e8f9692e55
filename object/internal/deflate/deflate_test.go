package deflate

import (
	"bytes"
	"compress/flate"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// join makes one stream of texts, each with the comma that is private to it, and their checksum.
func join(c *Code, texts [][]byte) ([]byte, Checksum) {
	var e Encoder
	var sum Checksum
	w := NewWriter(nil)
	w.Begin(c)
	w.Literal(c, []byte("head"))
	sum = SumOf([]byte("head"))
	for i, text := range texts {
		switch {
		case i%3 == 2: // as if the neighbour's form existed already
			e.Begin(texts[i-1])
			fallthrough
		default:
			e.Add(1, []byte(","), text)
		}
		w.Append(e.Encode(c))
		sum.Add(e.Sum())
	}
	w.Finish(c)
	return w.Complete(), sum
}

func check(t *testing.T, c *Code, texts [][]byte) {
	t.Helper()
	want := []byte("head")
	for _, text := range texts {
		want = append(append(want, ','), text...)
	}
	packed, sum := join(c, texts)
	in := bytes.NewReader(packed)
	got, err := io.ReadAll(flate.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Fatalf("%d bytes became %d others", len(want), len(got))
	}
	if in.Len() > 0 {
		t.Errorf("%d bytes behind the end", in.Len())
	}
	if sum.CRC != crc32.ChecksumIEEE(want) || int(sum.Size) != len(want) {
		t.Errorf("checksum %08x of %d bytes, want %08x of %d", sum.CRC, sum.Size, crc32.ChecksumIEEE(want), len(want))
	}
}

// codeOf makes a code from texts.
func codeOf(texts ...[]byte) *Code {
	var e Encoder
	var s Sample
	for _, text := range texts {
		e.Add(0, text)
		s.Add(&e)
	}
	return s.Code()
}

func random(r *rand.Rand, n, symbols int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(symbols)) ^ 0xa5
	}
	return b
}

func TestJoin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	words := []byte(strings.Repeat("the quick brown fox jumps over the lazy dog; ", 100))
	long := random(r, 100_000, 7)
	for name, texts := range map[string][][]byte{
		"none":            {},
		"empty":           {{}, {}, {}, {}},
		"one byte":        {{0}, {255}, {0}, {0}},
		"short":           {[]byte("abc"), []byte("abcdefgh"), []byte("abcdefghi"), []byte("abcdefgh")},
		"a run":           {bytes.Repeat([]byte("a"), 70_000), bytes.Repeat([]byte("a"), 3), bytes.Repeat([]byte("a"), 70_000)},
		"equal":           {words, words, words, words, words},
		"far apart":       {append(append([]byte("0123456789"), long...), "0123456789"...), append(long[:40_000:40_000], "0123456789"...)},
		"random":          {random(r, 50_000, 256), random(r, 5, 256), random(r, 300_000, 256), random(r, 2_000_000, 64), random(r, 1, 256)},
		"sparse alphabet": {random(r, 50_000, 2), random(r, 50_000, 3), random(r, 50_000, 1)},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, codeOf(), texts)
			check(t, codeOf(words), texts)
			check(t, codeOf(texts...), texts)
		})
	}
}

// Many edits of one text, so that many matches of many lengths at the same and at other distances occur.
func TestJoin_Edits(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	text := random(r, 20_000, 60)
	var texts [][]byte
	for range 200 {
		edited := bytes.Clone(text[:r.IntN(len(text))])
		for range r.IntN(20) {
			at, n := r.IntN(len(edited)+1), r.IntN(600)
			switch end := min(at+n, len(edited)); r.IntN(3) {
			case 0:
				edited = append(edited[:at:at], edited[end:]...)
			case 1:
				edited = append(edited[:at:at], append(random(r, n, 256), edited[at:]...)...)
			default:
				copy(edited[at:end], text[r.IntN(10_000):])
			}
		}
		texts = append(texts, edited)
	}
	check(t, codeOf(text), texts)
}

// A text unlike the sample gets a code of its own.
func TestEncode_OwnBlock(t *testing.T) {
	c := codeOf([]byte(strings.Repeat("abcabcabdabcdaadbdacbad", 1000)))
	text := random(rand.New(rand.NewPCG(5, 6)), 100_000, 64)
	var e Encoder
	e.Add(0, text)
	if _, bits := e.Encode(c); bits > len(text)*8*77/100 {
		t.Errorf("%d bytes with 64 symbols became %d", len(text), bits/8)
	}
}

// Counts like Fibonacci numbers make the deepest trees.
func TestAssign_Limit(t *testing.T) {
	for _, limit := range []uint8{7, 15} {
		counts := make([]uint32, 40)
		a, b := uint32(1), uint32(1)
		for i := range counts {
			counts[i] = a
			a, b = b, a+b
		}
		symbols := make([]symbol, len(counts))
		assign(symbols, counts, limit)
		used := 0.0
		for _, s := range symbols {
			if s.size == 0 || s.size > limit {
				t.Fatalf("limit %d: a word of %d bits", limit, s.size)
			}
			used += 1 / float64(uint(1)<<s.size)
		}
		if used != 1 {
			t.Errorf("limit %d: words fill %g of the space", limit, used)
		}
	}
}

func TestChecksum(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		a, b, c := random(r, r.IntN(300), 256), random(r, r.IntN(3), 256), random(r, r.IntN(100_000), 256)
		sum := SumOf(a)
		sum.Add(SumOf(b))
		sum.Add(SumOf(c))
		if all := SumOf(append(append(a, b...), c...)); sum.CRC != all.CRC || sum.Size != all.Size || sum.Adler != all.Adler {
			t.Fatalf("%d+%d+%d bytes: %+v, want %+v", len(a), len(b), len(c), sum, all)
		}
	}
}

func FuzzJoin(f *testing.F) {
	f.Add([]byte("abcabcabc"), []byte("abcabcabcabd"), []byte("xyz"))
	f.Add([]byte{}, []byte{1}, bytes.Repeat([]byte("0123"), 500))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		check(t, codeOf(a), [][]byte{a, b, c, a, a})
		check(t, codeOf(), [][]byte{c, b, a})
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, size := range []int{40, 150, 4000} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			p := random(rand.New(rand.NewPCG(1, 1)), size, 256)
			w := NewWriter(make([]byte, 0, 64<<10))
			w.put(5, 3)
			b.SetBytes(int64(size))
			for b.Loop() {
				w.Append(p, size*8)
				if len(w.Complete()) > 50<<10 {
					w.Reset(w.Complete()[:0])
				}
			}
		})
	}
}

func BenchmarkChecksum_Add(b *testing.B) {
	sum, item := SumOf([]byte("abc")), SumOf(make([]byte, 4700))
	for b.Loop() {
		sum.Add(item)
	}
}
