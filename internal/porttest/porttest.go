// Package porttest gives tests TCP ports for servers that must be told one, for example because they are started again on the same.
//
// Asking the kernel for a free port and closing it again is not enough: until the server listens, and while it is down, the kernel may give
// the port to another test of this machine or to the local end of any connection. So these ports lie below the kernel's range for such
// purposes, and the test holds the UDP port of the same number until it ends: others that ask here get another one.
package porttest

import (
	"math/rand/v2"
	"net"
	"strconv"
	"testing"
)

// The range of ports, the last one exclusive; Linux gives out ports from 32768 on by itself.
const first, end = 10000, 30000

// Free returns a port of 127.0.0.1 on which nobody listens, the test's own until it ends.
func Free(t testing.TB) int {
	t.Helper()
	return FreeRange(t, 1)
}

// FreeRange returns the first of n such ports side by side.
func FreeRange(t testing.TB, n int) int {
	t.Helper()
	for range 1000 {
		port := first + rand.IntN(end-first-n)
		if claims, ok := claim(port, n); ok {
			t.Cleanup(func() { release(claims) })
			return port
		}
	}
	t.Fatalf("no %d free ports from %d to %d", n, first, end)
	return 0
}

// claim holds the UDP ports when nobody listens on the TCP ports.
func claim(port, n int) (claims []net.PacketConn, ok bool) {
	for i := range n {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port+i))
		held, err := net.ListenPacket("udp", address)
		if err != nil {
			release(claims)
			return nil, false
		}
		claims = append(claims, held)
		listener, err := net.Listen("tcp", address)
		if err != nil {
			release(claims)
			return nil, false
		}
		listener.Close()
	}
	return claims, true
}

func release(claims []net.PacketConn) {
	for _, held := range claims {
		held.Close()
	}
}
