//go:build unix

package serving

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// reusePort lets several processes listen on one address.
func reusePort(_, _ string, conn syscall.RawConn) error {
	var failed error
	err := conn.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	if err != nil {
		return err
	}
	return failed
}
