package probe

import "syscall"

// linger has a socket that is closed wait so many seconds for the other side, and no longer.
func linger(socket uintptr, seconds int32) error {
	return syscall.SetsockoptLinger(syscall.Handle(socket), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{Onoff: 1, Linger: seconds})
}
