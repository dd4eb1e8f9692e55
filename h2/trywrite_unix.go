//go:build unix

package h2

import "syscall"

const canTryWrite = true

// tryWriter writes what a socket takes without blocking. It is a struct so that a write allocates nothing.
type tryWriter struct {
	raw  syscall.RawConn
	call func(uintptr) bool
	p    []byte
	n    int
	err  error
}

// write gives p to the kernel and returns how much it took, 0 when its buffer is full.
func (t *tryWriter) write(p []byte) (int, error) {
	if t.call == nil {
		t.call = t.attempt
	}
	t.p = p
	err := t.raw.Write(t.call)
	t.p = nil
	if err != nil {
		return 0, err
	}
	if t.err == syscall.EAGAIN {
		return 0, nil
	}
	return max(t.n, 0), t.err
}

func (t *tryWriter) attempt(fd uintptr) bool {
	for {
		t.n, t.err = syscall.Write(int(fd), t.p)
		if t.err != syscall.EINTR {
			return true // done, whatever came of it: do not wait
		}
	}
}
