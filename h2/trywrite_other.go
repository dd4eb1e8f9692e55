//go:build !unix

package h2

import (
	"errors"
	"syscall"
)

const canTryWrite = false

func tryWrite(syscall.RawConn, []byte) (int, error) { return 0, errors.ErrUnsupported }
