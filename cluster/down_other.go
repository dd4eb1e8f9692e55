//go:build !linux

package cluster

import "context"

// down has nothing more to do: without containers there is nothing but the process that has ended.
func (c DownConfig) down(context.Context) error { return nil }

func (c DownConfig) stopFormerNodes(context.Context, func(string) bool) error { return nil }

func mountsBelow(string) ([]string, error) { return nil, nil }
