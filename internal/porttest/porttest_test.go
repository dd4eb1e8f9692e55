package porttest

import (
	"net"
	"testing"
)

func TestFree(t *testing.T) {
	seen := map[int]bool{}
	for range 500 {
		port := FreeRange(t, 2)
		for _, p := range []int{port, port + 1} {
			if seen[p] || p < first || p >= end {
				t.Fatalf("port %d, after %d others", p, len(seen))
			}
			seen[p] = true
		}
	}
	for port := range seen {
		if claims, ok := claim(port, 1); ok {
			release(claims)
			t.Fatalf("port %d can be had twice", port)
		}
	}
}

func TestClaim_Busy(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	if _, ok := claim(listener.Addr().(*net.TCPAddr).Port, 1); ok {
		t.Error("a port is free on which somebody listens")
	}
}
