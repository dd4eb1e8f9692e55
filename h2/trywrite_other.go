//go:build !unix

package h2

import (
	"errors"
	"syscall"
)

const canTryWrite = false

type tryWriter struct{ raw syscall.RawConn }

func (*tryWriter) write([]byte) (int, error) { return 0, errors.ErrUnsupported }
