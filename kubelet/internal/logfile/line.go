// Package logfile reads the log files that container runtimes write, in the CRI's format: "time
// stream tag text".
//
//	2016-10-06T00:17:09.669794202Z stdout P begin of a long line,
//	2016-10-06T00:17:09.669794203Z stdout F and its end
//
// [Copy] sends what a reader asks for: the last lines, those since a time, one stream of two, and what is still to come. Who follows a
// file is woken by a [Watcher], which has one inotify instance for all of them. A file that is rotated while it is followed is read to its
// end, then the new one from its beginning; no line is lost or sent twice. What was rotated away before is not read, as upstream does not.
package logfile

import (
	"bytes"
	"errors"
	"fmt"
	"time"
)

// line is one entry of a file. text belongs to the file's buffer.
type line struct {
	at     time.Time
	stderr bool
	text   []byte // with its line end, unless partial
}

var (
	errTime   = errors.New("timestamp is not found")
	errStream = errors.New("stream type is not found")
	errTag    = errors.New("log tag is not found")
)

// parse reads one entry, with its line end if it has one.
func parse(raw []byte) (line, error) {
	var l line
	stamp, rest, ok := bytes.Cut(raw, []byte{' '})
	if !ok {
		return l, errTime
	}
	var err error
	if l.at, err = time.Parse(time.RFC3339Nano, string(stamp)); err != nil {
		return l, fmt.Errorf("read timestamp: %w", err)
	}
	stream, rest, ok := bytes.Cut(rest, []byte{' '})
	switch {
	case !ok:
		return l, errStream
	case string(stream) == "stderr":
		l.stderr = true
	case string(stream) != "stdout":
		return l, fmt.Errorf("unexpected stream type %q", stream)
	}
	tags, text, ok := bytes.Cut(rest, []byte{' '})
	if !ok {
		return l, errTag
	}
	l.text = text
	if first, _, _ := bytes.Cut(tags, []byte{':'}); string(first) == "P" {
		l.text = bytes.TrimSuffix(text, []byte{'\n'})
	}
	return l, nil
}
