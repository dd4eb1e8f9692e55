package cri

import "syscall"

// diskUsage is of the file system that path is on, in bytes; available is what others than root can have.
func diskUsage(path string) (capacity, available int64, err error) {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(path, &stat); err != nil {
		return 0, 0, err
	}
	return int64(stat.Blocks) * stat.Bsize, int64(stat.Bavail) * stat.Bsize, nil
}
