//go:build !unix

package serving

import (
	"errors"
	"syscall"
)

// reusePort fails: the system has no such thing.
func reusePort(_, _ string, _ syscall.RawConn) error {
	return errors.New("--permit-port-sharing is not possible on this system")
}
