package untrusted

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

var (
	// ErrNotRegular says that something is no regular file: a directory, a FIFO, a socket, a device or a link.
	ErrNotRegular = errors.New("not a regular file")
	// ErrTooLarge says that a file has more bytes than the caller takes.
	ErrTooLarge = errors.New("file is too large")
	// ErrMounted says that something is mounted where nothing may be.
	ErrMounted = errors.New("still mounted")
	// ErrTooDeep says that directories are nested deeper than MaxDepth.
	ErrTooDeep = fmt.Errorf("directories are nested more than %d deep", MaxDepth)
	// ErrHangs says that Within has given up.
	ErrHangs = errors.New("the file system does not answer")
)

// Read returns what is in a regular file. It fails with ErrTooLarge, before it reads, when that is more than limit bytes.
func Read(path string, limit int64) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	return ReadFrom(file, limit)
}

// ReadFrom is Read for an open file, from where it is.
func ReadFrom(file *os.File, limit int64) ([]byte, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	tooLarge := &os.PathError{Op: "read", Path: file.Name(), Err: ErrTooLarge}
	if info.Size() > limit {
		return nil, tooLarge
	}
	data, err := io.ReadAll(io.LimitReader(file, limit+1)) // it may be growing
	if err == nil && int64(len(data)) > limit {
		return nil, tooLarge
	}
	return data, err
}

// ReadEnd returns the last limit bytes of a regular file, or all of a shorter one.
func ReadEnd(path string, limit int64) ([]byte, error) {
	file, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return nil, err
	}
	return io.ReadAll(io.NewSectionReader(file, max(0, info.Size()-limit), limit))
}

// Write makes content what is in a regular file, which keeps its inode and gets the permissions. A file that is not there is made.
func Write(path string, content []byte, perm os.FileMode) error {
	file, err := open(path, os.O_WRONLY|os.O_CREATE, perm)
	if err != nil {
		return err
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = file.Write(content)
	}
	if err == nil {
		err = file.Chmod(perm) // whatever the umask is
	}
	return errors.Join(err, file.Close())
}

// Open opens a regular file to read. The last element of the path is not followed when it is a link; those before it are the caller's.
func Open(path string) (*os.File, error) { return open(path, os.O_RDONLY, 0) }

// hanging bounds the calls of Within that were given up and have not come back. Each holds a thread of the process.
var hanging = make(chan struct{}, 64)

// Within calls do in a goroutine of its own and returns what it returns, or ErrHangs when that takes longer than limit. A file system that hangs
// cannot be told to stop: the goroutine stays until do returns. While 64 of them stay, Within fails without calling do.
func Within[T any](limit time.Duration, do func() (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	select {
	case hanging <- struct{}{}:
	default:
		return *new(T), ErrHangs
	}
	done := make(chan answer, 1)
	go func() {
		defer func() { <-hanging }()
		value, err := do()
		done <- answer{value, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case a := <-done:
		return a.value, a.err
	case <-timer.C:
		return *new(T), ErrHangs
	}
}
