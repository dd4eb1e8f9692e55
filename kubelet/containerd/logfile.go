package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"
)

// logPeriod is how often the size of the log is looked at.
const logPeriod = 30 * time.Second

// openLog opens the log for containerd, which appends to it for as long as it lives.
func openLog(path string) (*os.File, error) {
	log, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return nil, fmt.Errorf("open containerd's log: %w", err)
	}
	return log, nil
}

// boundLog keeps a log that another process appends to from growing beyond size, until ctx ends. When it cannot, it says so once and
// tries again: a full disk is no reason to end a node.
func boundLog(ctx context.Context, path string, size int64, logger *slog.Logger) error {
	tick := time.NewTicker(logPeriod)
	defer tick.Stop()
	failed := false
	for {
		err := rotate(path, size)
		if err != nil && !failed {
			logger.Error("the kubelet cannot cut containerd's log; the log grows until that works again", "error", err)
		}
		failed = err != nil
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// rotate copies a log of more than size bytes aside and empties it. The writer has it open for appending and goes on at the new
// end; lines that it writes between the two steps are lost.
func rotate(path string, size int64) (err error) {
	log, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("rotate containerd's log: %w", err)
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	info, err := log.Stat()
	if err != nil || info.Size() <= size {
		return err
	}
	aside, err := os.Create(path + ".1")
	if err != nil {
		return fmt.Errorf("rotate containerd's log: %w", err)
	}
	if _, err := io.Copy(aside, log); err != nil {
		return errors.Join(fmt.Errorf("rotate containerd's log: %w", err), aside.Close())
	}
	if err := aside.Close(); err != nil {
		return fmt.Errorf("rotate containerd's log: %w", err)
	}
	return log.Truncate(0)
}
