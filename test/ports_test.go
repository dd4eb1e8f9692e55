package test

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// freePort returns a port of 127.0.0.1 on which nobody listens, the test's own until it ends: see vigil/internal/porttest, of which this is a
// copy, since this module imports nothing of Vigil's.
func freePort(t testing.TB) int {
	t.Helper()
	return freePorts(t, 1)
}

// freePorts returns the first of n such ports side by side.
func freePorts(t testing.TB, n int) int {
	t.Helper()
	for range 1000 {
		port := 10000 + rand.IntN(20000-n) // below the range from which the kernel takes ports
		if claims, ok := claimPorts(port, n); ok {
			t.Cleanup(func() { releasePorts(claims) })
			return port
		}
	}
	t.Fatalf("no %d free ports side by side", n)
	return 0
}

// claimPorts holds the UDP ports when nobody listens on the TCP ports.
func claimPorts(port, n int) (claims []net.PacketConn, ok bool) {
	for i := range n {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port+i))
		held, err := net.ListenPacket("udp", address)
		if err != nil {
			releasePorts(claims)
			return nil, false
		}
		claims = append(claims, held)
		listener, err := net.Listen("tcp", address)
		if err != nil {
			releasePorts(claims)
			return nil, false
		}
		listener.Close()
	}
	return claims, true
}

func releasePorts(claims []net.PacketConn) {
	for _, held := range claims {
		held.Close()
	}
}
