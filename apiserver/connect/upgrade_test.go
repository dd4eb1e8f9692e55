package connect

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"
)

type answering struct {
	net.Conn
	io.Reader
}

func (a answering) Read(p []byte) (int, error) { return a.Reader.Read(p) }

// TestHeaded: an answer is bounded, and what flows after an upgrade is not.
func TestHeaded(t *testing.T) {
	much := strings.Repeat("x", 2*maxAnswer)
	for name, tc := range map[string]struct {
		text string
		cut  bool
	}{
		"a session":                        {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: a\r\n\r\n" + much, false},
		"a session, lines without returns": {"HTTP/1.1 101 Switching Protocols\nUpgrade: a\n\n" + much, false},
		"a header without an end":          {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: " + much, true},
		"a refusal":                        {"HTTP/1.1 403 Forbidden\r\n\r\nno", false},
		"a refusal without an end":         {"HTTP/1.1 403 Forbidden\r\n\r\n" + much, true},
		"no HTTP":                          {much, true},
		"an early empty line":              {"\r\n\r\n" + much, true},
	} {
		for how, r := range map[string]io.Reader{"at once": strings.NewReader(tc.text), "in halves": iotest.HalfReader(strings.NewReader(tc.text))} {
			got, err := io.ReadAll(&headed{Conn: answering{Reader: r}})
			if tc.cut && (!errors.Is(err, errLongAnswer) || len(got) > maxAnswer) || !tc.cut && (err != nil || string(got) != tc.text) {
				t.Errorf("%s, %s: %d bytes, %v; want it cut: %t", name, how, len(got), err, tc.cut)
			}
		}
	}
}
