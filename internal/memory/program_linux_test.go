package memory

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

func TestUnchanged(t *testing.T) {
	const smaps = `00400000-03000000 r-xp 00000000 fe:00 1 /bin/vigil
Rss:               46000 kB
Anonymous:             0 kB
VmFlags: rd ex mr mw me
03000000-05000000 r--p 02c00000 fe:00 1 /bin/vigil
Anonymous:             0 kB
05000000-05001000 r--p 04c00000 fe:00 1 /bin/vigil
Anonymous:             4 kB
05001000-05100000 rw-p 04c01000 fe:00 1 /bin/vigil
Anonymous:             0 kB
c000000000-c000400000 rw-p 00000000 00:00 0
Anonymous:             0 kB
7f0000000000-7f0000001000 r-xp 00000000 fe:00 2 /lib/libc.so.6
Anonymous:             0 kB
`
	got := unchanged([]byte(smaps), "/bin/vigil")
	if len(got) != 2 || got[0] != (mapping{0x400000, 0x3000000}) || got[1] != (mapping{0x3000000, 0x5000000}) {
		t.Errorf("got %x", got)
	}
}

func TestDropProgram(t *testing.T) {
	before := rssFile(t)
	dropProgram()
	if after := rssFile(t); after >= before {
		t.Errorf("%d kB of files were mapped before, %d after", before, after)
	}
}

func rssFile(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) == 3 && fields[0] == "RssFile:" {
			kb, err := strconv.Atoi(fields[1])
			if err != nil {
				t.Fatal(err)
			}
			return kb
		}
	}
	t.Fatal("no RssFile")
	return 0
}
