package serving

import (
	"strings"
	"testing"
)

// --permit-port-sharing lets a second server listen on a port that a first one has, if both have the flag; without it the second says why not.
func TestListen_PortSharing(t *testing.T) {
	first, err := Config{ReusePort: true}.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	address := first.Addr().String()
	second, err := Config{ReusePort: true}.Listen(t.Context(), address)
	if err != nil {
		t.Fatalf("two that share: %v", err)
	}
	defer second.Close()
	if third, err := (Config{}).Listen(t.Context(), address); err == nil || !strings.HasPrefix(err.Error(), "cannot listen on "+address+": ") {
		if err == nil {
			third.Close()
		}
		t.Errorf("one that does not share: %v", err)
	}
}
