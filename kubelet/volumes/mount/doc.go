// Package mount mounts, unmounts, and handles files that others may be changing, by system calls alone.
//
// It works on Linux 5.8 and later; elsewhere everything fails with [errors.ErrUnsupported].
package mount
