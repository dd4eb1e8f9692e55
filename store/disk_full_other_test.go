//go:build !linux

package store_test

import "errors"

func fillDisk(string) error { return errors.New("only on Linux") }
