//go:build !linux

package node

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"
)

// runReal fails: there are no real containers here.
func (c *Config) runReal(context.Context, *rest.Config) error {
	return errors.New("real containers need Linux")
}
