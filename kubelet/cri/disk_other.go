//go:build !linux

package cri

import "errors"

func diskUsage(string) (capacity, available int64, err error) {
	return 0, 0, errors.New("disk usage is known on Linux only")
}
