//go:build unix

package h2

import (
	"syscall"
)

const canTryWrite = true

// tryWrite gives p to the kernel and returns how much it took, 0 when its buffer is full.
func tryWrite(raw syscall.RawConn, p []byte) (n int, err error) {
	var werr error
	err = raw.Write(func(fd uintptr) bool {
		for {
			n, werr = syscall.Write(int(fd), p)
			if werr != syscall.EINTR {
				return true
			}
		}
	})
	if err == nil && werr != nil && werr != syscall.EAGAIN {
		err = werr
	}
	return max(n, 0), err
}
