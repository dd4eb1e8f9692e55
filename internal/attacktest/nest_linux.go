package attacktest

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Nest makes directories of a name in dir, each in the last, and a file "file" of size bytes in the last: as deep as no path can tell, if depth is large.
// The test sees to it that they go; what runs out of descriptors, as os.RemoveAll does, is not up to that.
func Nest(t testing.TB, dir, name string, depth int, size int64) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_CLOEXEC, 0)
	must(err)
	for range depth {
		must(unix.Mkdirat(fd, name, 0o755))
		next, err := unix.Openat(fd, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		must(err)
		unix.Close(fd)
		fd = next
	}
	defer unix.Close(fd)
	file, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	must(err)
	defer unix.Close(file)
	if size > 0 {
		must(unix.Fallocate(file, 0, 0, size))
	}
}

// FewDescriptors lets the process have n more files open at most, until the test ends.
func FewDescriptors(t testing.TB, n int) {
	t.Helper()
	lowest, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(lowest)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	lower := limit
	lower.Cur = uint64(lowest + n)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
			t.Error(err)
		}
	})
}
