//go:build !linux

package cluster

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"
)

func (c *KubeletConfig) runReal(context.Context, *rest.Config) error {
	return errors.New("real containers need Linux")
}
