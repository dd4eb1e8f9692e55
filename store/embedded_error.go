package store

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"
)

// fatalEntry is what etcd logged before it would have ended the process.
type fatalEntry struct {
	message string
	err     error // nil when it gave none
}

func (f fatalEntry) Error() string {
	if f.err == nil {
		return f.message
	}
	return f.message + ": " + f.err.Error()
}

func (f fatalEntry) Unwrap() error { return f.err }

// corruptError is a panic over the data.
type corruptError struct{ error }

// startError is the sentence an operator can act on, with etcd's own words behind it.
func startError(cfg EmbeddedConfig, err error) error {
	var sentence startSentence
	if err == nil || errors.As(err, &sentence) {
		return err
	}
	var fatal fatalEntry
	var corrupt corruptError
	var path *fs.PathError
	switch {
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return startSentence{fmt.Errorf("no space left on the disk of etcd data directory %s: %w", cfg.DataDir, err)}
	case errors.Is(err, syscall.EADDRINUSE):
		return startSentence{fmt.Errorf("etcd cannot listen, the address is in use: %w", err)}
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EROFS):
		return startSentence{fmt.Errorf("no permission on etcd data directory %s: %w", cfg.DataDir, err)}
	case errors.As(err, &fatal) && !errors.As(err, &path), errors.As(err, &corrupt):
		return startSentence{fmt.Errorf("etcd cannot use the data in %s, it may be damaged: %w", cfg.DataDir, err)}
	}
	return startSentence{fmt.Errorf("etcd in %s: %w", cfg.DataDir, err)}
}

// startSentence marks an error that startError has been over.
type startSentence struct{ err error }

func (s startSentence) Error() string { return s.err.Error() }
func (s startSentence) Unwrap() error { return s.err }
