// Package resourceversion compares the resource versions of one object.
package resourceversion

import "strconv"

// IsOlder reports whether a is an older resource version than b, or is none. Without b nothing is older.
func IsOlder(a, b string) bool {
	x, errX := strconv.ParseUint(a, 10, 64)
	y, errY := strconv.ParseUint(b, 10, 64)
	return errY == nil && (errX != nil || x < y)
}
