package transcode

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand"
	"testing"

	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"vigil/object/internal/golden"
)

var (
	seed   = flag.Int64("seed", 1, "seed of the random objects")
	rounds = flag.Int("rounds", 3, "random objects of each kind")
)

// TestAppend_Random compares random objects of every kind, and the same with a damaged byte or two, with decode and
// marshal.
func TestAppend_Random(t *testing.T) {
	scheme := golden.Scheme(t)
	fill := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(*seed), serializer.NewCodecFactory(scheme))
	random := rand.New(rand.NewSource(*seed))
	transcoded, unusual := 0, 0
	for _, c := range golden.Load(t) {
		if c.Release != "HEAD" {
			continue
		}
		plan := planFor(t, newObject(t, scheme, c))
		for range *rounds {
			obj := newObject(t, scheme, c)
			fill.Fill(obj)
			msg, err := obj.(interface{ Marshal() ([]byte, error) }).Marshal()
			if err != nil {
				t.Fatalf("seed %d: %s: %v", *seed, c.Name(), err)
			}
			for damage := range 4 {
				msg = damaged(random, msg, damage)
				got, err := plan.Append([]byte("{"), msg)
				if err != nil {
					unusual++
					continue
				}
				transcoded++
				want, err := reference(t, newObject(t, scheme, c), msg)
				if err != nil {
					t.Fatalf("seed %d: %s: transcoded what cannot be decoded (%v): %s", *seed, c.Name(), err, got)
				}
				if !bytes.Equal(got, want) || !json.Valid(got) {
					t.Fatalf("seed %d: %s\ngot  %s\nwant %s", *seed, c.Name(), got, want)
				}
			}
		}
	}
	if transcoded < unusual/4 {
		t.Errorf("only %d of %d were transcoded", transcoded, transcoded+unusual)
	}
}

// damaged returns msg with n random changes.
func damaged(random *rand.Rand, msg []byte, n int) []byte {
	msg = bytes.Clone(msg)
	for range n {
		if len(msg) == 0 {
			break
		}
		at := random.Intn(len(msg))
		switch random.Intn(3) {
		case 0:
			msg[at] ^= 1 << random.Intn(8)
		case 1:
			msg = append(msg[:at], msg[at+1:]...)
		case 2: // twice
			end := at + random.Intn(len(msg)-at)
			msg = append(msg[:end:end], msg[at:]...)
		}
	}
	return msg
}
