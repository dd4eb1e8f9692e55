package audit

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"gopkg.in/natefinch/lumberjack.v2"
	"k8s.io/apimachinery/pkg/runtime"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	upstream "k8s.io/apiserver/pkg/audit"
)

// LogConfig says how events are written to a file.
type LogConfig struct {
	Path       string // --audit-log-path; "-" is standard output
	MaxAge     int    // --audit-log-maxage: days that old files are kept, 0: for ever
	MaxBackups int    // --audit-log-maxbackup: old files that are kept, 0: all
	MaxSize    int    // --audit-log-maxsize: MiB at which a new file begins, 0: 100
	Compress   bool   // --audit-log-compress: of old files
	Format     string // --audit-log-format: "json" (the default) or "legacy"
	Queue      Queue
}

// logFile writes a line for each event.
type logFile struct {
	format func(*auditapi.Event) ([]byte, error)

	mu  sync.Mutex
	out io.WriteCloser
}

func newLog(config LogConfig) (*logFile, error) {
	l := &logFile{}
	switch config.Format {
	case "", "json":
		encoder := upstream.Codecs.LegacyCodec(auditv1.SchemeGroupVersion)
		l.format = func(e *auditapi.Event) ([]byte, error) { return runtime.Encode(encoder, e) }
	case "legacy":
		l.format = func(e *auditapi.Event) ([]byte, error) { return []byte(upstream.EventString(e) + "\n"), nil }
	default:
		return nil, fmt.Errorf("format %q is not known; use json, legacy", config.Format)
	}
	if config.Path == "-" {
		l.out = nopCloser{os.Stdout}
		return l, nil
	}
	if err := os.MkdirAll(filepath.Dir(config.Path), 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(config.Path, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600) // whether it can be written is to be known now
	if err != nil {
		return nil, err
	}
	if err := file.Close(); err != nil {
		return nil, err
	}
	l.out = &lumberjack.Logger{Filename: config.Path, MaxAge: config.MaxAge, MaxBackups: config.MaxBackups, MaxSize: config.MaxSize, Compress: config.Compress}
	return l, nil
}

func (l *logFile) write(_ context.Context, events []auditapi.Event) error {
	var lines []byte
	for i := range events {
		line, err := l.format(&events[i])
		if err != nil {
			return err
		}
		lines = append(lines, line...)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.out.Write(lines)
	return err
}

func (l *logFile) close() error { return l.out.Close() }

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
