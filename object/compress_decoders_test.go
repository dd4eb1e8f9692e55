package object

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"vigil/internal/need"
)

// Other implementations than Go's read the stream: zlib through Python, Perl and Node, gzip itself, as far as they are
// installed.
func TestCompressor_OtherDecoders(t *testing.T) {
	typ := podType()
	items := clusterPods(t, typ, 500, 20)
	for i := 0; i < len(items); i += 50 {
		items[i] = hugePod(t, newRand(uint64(i)), typ, int64(i+1))
	}
	l := ListWriter{Type: typ, Meta: ListMeta{ResourceVersion: 7}}
	var plain, packed bytes.Buffer
	if err := l.Write(&plain, items); err != nil {
		t.Fatal(err)
	}
	if err := NewCompressor(0).WriteList(&packed, Gzip, &l, items); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "list.gz")
	if err := os.WriteFile(file, packed.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, command := range [][]string{
		{"gzip", "-dc", file},
		{"python3", "-c", "import gzip,sys; sys.stdout.buffer.write(gzip.open(sys.argv[1]).read())", file},
		{"node", "-e", "process.stdout.write(require('zlib').gunzipSync(require('fs').readFileSync(process.argv[1])))", file},
		{"perl", "-MIO::Uncompress::Gunzip=gunzip", "-e", "gunzip($ARGV[0] => '-') or exit 1", file},
	} {
		t.Run(command[0], func(t *testing.T) {
			need.Program(t, command[0])
			got, err := exec.CommandContext(t.Context(), command[0], command[1:]...).Output()
			if err != nil || !bytes.Equal(got, plain.Bytes()) {
				t.Errorf("%d bytes, want %d: %v", len(got), plain.Len(), err)
			}
		})
	}
}
