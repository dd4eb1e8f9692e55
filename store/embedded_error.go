package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"syscall"

	bbolt "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
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
	case isDiskFull(err):
		return startSentence{fmt.Errorf("no space left on the disk of etcd data directory %s: %w", cfg.DataDir, err)}
	case errors.Is(err, syscall.EADDRINUSE):
		return startSentence{fmt.Errorf("etcd cannot listen, the address is in use: %w", err)}
	case errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM), errors.Is(err, syscall.EROFS):
		return startSentence{fmt.Errorf("no permission on etcd data directory %s: %w", cfg.DataDir, err)}
	case errors.As(err, &fatal) && !errors.As(err, &path), errors.As(err, &corrupt), isCorrupt(err):
		return startSentence{fmt.Errorf("etcd cannot use the data in %s, it may be damaged: %w; restore that directory from a backup, or remove it to begin without any object", cfg.DataDir, err)}
	}
	return startSentence{fmt.Errorf("etcd in %s: %w", cfg.DataDir, err)}
}

// isDiskFull says that a write failed for lack of space.
func isDiskFull(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// isCorrupt knows the errors by which etcd's log and database report that a file is not what they wrote.
func isCorrupt(err error) bool {
	for _, e := range []error{
		walpb.ErrCRCMismatch, wal.ErrCRCMismatch, wal.ErrMetadataConflict, wal.ErrFileNotFound,
		wal.ErrSnapshotMismatch, wal.ErrSnapshotNotFound, wal.ErrSliceOutOfRange, wal.ErrDecoderNotFound,
		io.ErrUnexpectedEOF, bbolt.ErrInvalid, bbolt.ErrChecksum, bbolt.ErrVersionMismatch,
	} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// startSentence marks an error that startError has been over.
type startSentence struct{ err error }

func (s startSentence) Error() string { return s.err.Error() }
func (s startSentence) Unwrap() error { return s.err }
