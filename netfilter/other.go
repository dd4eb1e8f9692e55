//go:build !linux

package netfilter

import "errors"

// IsComplete fails: packet rules need Linux.
func IsComplete(string) (bool, error) { return false, errors.New("packet rules need Linux") }
