//go:build !linux

package cluster

import (
	"context"
	"errors"
)

func (f *furtherNodes) keep(context.Context, int, string) error {
	return errors.New("further nodes with real containers need Linux")
}
