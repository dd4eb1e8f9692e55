package logfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"vigil/kubelet/untrusted"
)

// Options say what of a file is wanted.
type Options struct {
	Since          time.Time // nothing older
	Tail           int64     // the last so many lines; negative: all
	Limit          int64     // at most so many bytes; 0: no limit
	Timestamps     bool      // each line begins with its time
	Stdout, Stderr bool

	// Follow waits for more at the end, as long as Running says that there may be more. Changes wakes it; it looks every second
	// in any case.
	Follow  bool
	Running func() bool
	Changes <-chan struct{}
}

const (
	leastChunk = 4 << 10 // to begin with
	chunk      = 32 << 10
	maxLine    = 1 << 20 // what is longer is not a log's
	look       = time.Second

	// stampFormat has always nine digits, so that lines stand below each other.
	stampFormat = "2006-01-02T15:04:05.000000000Z07:00"
)

// errLimit says that as much has been sent as is wanted.
var errLimit = errors.New("limit is reached")

// Copy writes what opts ask for of a regular file to w, in one Write for what is there at once. It ends at the end of the file or, when following, when the
// container no longer runs; with ctx's error when that ends.
func Copy(ctx context.Context, w io.Writer, path string, opts Options) error {
	f, err := untrusted.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("failed to try resolving symlinks in path %q: %w", path, err) // that is where upstream fails
	}
	if err != nil {
		return fmt.Errorf("failed to open log file %q: %w", path, err)
	}
	c := &copier{w: w, opts: opts, path: path, file: f, size: leastChunk, lineStart: true, left: opts.Limit}
	defer func() { c.file.Close() }()
	if opts.Tail >= 0 {
		start, err := tail(ctx, f, opts.Tail)
		if err == nil {
			_, err = f.Seek(start, io.SeekStart)
		}
		if err != nil {
			return fmt.Errorf("failed to tail %d lines of log file %q: %w", opts.Tail, path, err)
		}
	}
	if err := c.run(ctx); err != nil && !errors.Is(err, errLimit) {
		return err
	}
	return nil
}

// copier is one Copy.
type copier struct {
	w    io.Writer
	opts Options
	path string
	file *os.File

	size      int    // of what is read next
	in        []byte // read and not yet sent: the beginning of a line
	out       []byte
	lineStart bool  // what comes next begins a line
	left      int64 // of opts.Limit
}

func (c *copier) run(ctx context.Context) error {
	var tick *time.Ticker
	for {
		// Asked before reading: what the container has written before it ended is there then.
		last := !c.opts.Follow || !c.opts.Running()
		next, err := c.successor()
		if err != nil {
			return err
		}
		if err := c.drain(ctx, last && next == nil); err != nil {
			if next != nil {
				next.Close()
			}
			return err
		}
		switch {
		case next != nil:
			c.file.Close()
			c.file, c.in = next, nil
			continue
		case last:
			return nil
		}
		if tick == nil {
			tick = time.NewTicker(look)
			defer tick.Stop()
		}
		select {
		case <-c.opts.Changes:
		case <-tick.C:
			c.rest()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// rest gives buffers back of a file in which nothing happens.
func (c *copier) rest() {
	if c.out, c.size = nil, leastChunk; len(c.in) == 0 {
		c.in = nil
	}
}

// successor opens the file that has taken the place of the one being read, nil when there is none.
func (c *copier) successor() (*os.File, error) {
	if !c.opts.Follow {
		return nil, nil //nolint:nilnil // as said
	}
	now, err := os.Lstat(c.path)
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // being rotated, or removed with its pod: what is left is read
	}
	have, err := c.file.Stat()
	if err != nil {
		return nil, fmt.Errorf("look at log file %q: %w", c.path, err)
	}
	if os.SameFile(now, have) {
		return nil, nil //nolint:nilnil
	}
	next, err := untrusted.Open(c.path)
	if err != nil {
		return nil, nil //nolint:nilnil,nilerr // rotated again, or no log
	}
	return next, nil
}

// drain sends what the file has. whole says that a line without end is one nevertheless.
func (c *copier) drain(ctx context.Context, whole bool) error {
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(c.in) > maxLine {
			return fmt.Errorf("failed to read log file %q: %w", c.path, errLine)
		}
		have := len(c.in)
		c.in = append(c.in, make([]byte, c.size)...)
		n, err := c.file.Read(c.in[have:])
		c.in = c.in[:have+n]
		if n == c.size {
			c.size = min(2*n, chunk)
		}
		full := c.take(have)
		end := errors.Is(err, io.EOF)
		if end && whole && len(c.in) > 0 && full == nil {
			full = c.add(c.in)
			c.in = nil
		}
		if err := c.flush(); err != nil {
			return err
		}
		switch {
		case full != nil:
			return full
		case end:
			return nil
		case err != nil:
			return fmt.Errorf("failed to read log file %q: %w", c.path, err)
		}
	}
}

// take moves whole lines from in to out. The first searched bytes have no line end.
func (c *copier) take(searched int) error {
	rest := c.in
	var err error
	for err == nil {
		i := bytes.IndexByte(rest[searched:], '\n')
		if i < 0 {
			break
		}
		i += searched
		err = c.add(rest[:i+1])
		rest, searched = rest[i+1:], 0
	}
	c.in = append(c.in[:0], rest...)
	return err
}

// add puts an entry into out if it is wanted.
func (c *copier) add(raw []byte) error {
	l, err := parse(raw)
	if err != nil {
		return nil //nolint:nilerr // half an entry, after a crash: upstream leaves it out as well
	}
	start := c.lineStart
	c.lineStart = len(l.text) == 0 || l.text[len(l.text)-1] == '\n'
	if l.at.Before(c.opts.Since) || l.stderr && !c.opts.Stderr || !l.stderr && !c.opts.Stdout {
		return nil
	}
	before := len(c.out)
	if c.opts.Timestamps && start {
		c.out = append(l.at.AppendFormat(c.out, stampFormat), ' ')
	}
	c.out = append(c.out, l.text...)
	if c.opts.Limit == 0 {
		return nil
	}
	n := int64(len(c.out) - before)
	if n >= c.left {
		c.out = c.out[:before+int(c.left)]
		c.left = 0
		return errLimit
	}
	c.left -= n
	return nil
}

func (c *copier) flush() error {
	if len(c.out) == 0 {
		return nil
	}
	_, err := c.w.Write(c.out)
	if c.out = c.out[:0]; cap(c.out) > 2*chunk {
		c.out = nil
	}
	return err
}

// errLine says that a file has a line that is too long for a log.
var errLine = fmt.Errorf("a line of more than %d bytes", maxLine)

// tail finds where the last n lines of a file begin.
func tail(ctx context.Context, f io.ReaderAt, n int64) (int64, error) {
	size, err := length(f)
	if err != nil || n == 0 {
		return size, err
	}
	buf := make([]byte, chunk)
	line := size // ends here
	for end := size; end > 0; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		if line-end > maxLine { // a file with holes would be read for hours
			return 0, errLine
		}
		from := max(0, end-chunk)
		block := buf[:end-from]
		if _, err := f.ReadAt(block, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		for {
			i := bytes.LastIndexByte(block, '\n')
			if i < 0 {
				break
			}
			if from+int64(i) != size-1 { // that ends the last line
				if n--; n == 0 {
					return from + int64(i) + 1, nil
				}
			}
			block, line = block[:i], from+int64(i)
		}
		end = from
	}
	return 0, nil
}

func length(f io.ReaderAt) (int64, error) {
	s, ok := f.(interface{ Stat() (os.FileInfo, error) })
	if !ok {
		return 0, errors.New("not a file")
	}
	info, err := s.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
