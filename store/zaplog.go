package store

import (
	"context"
	"log/slog"
	"runtime"
	"strings"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapLogger hands etcd's warnings and errors to log, until closing is closed: what etcd says while it is being closed
// is no news. What it logs as fatal ends the goroutine instead of the process, after fatal was told.
func zapLogger(log *slog.Logger, closing <-chan struct{}, fatal func(fatalEntry)) *zap.Logger {
	core := &slogCore{log: log.With("component", "etcd"), closing: closing}
	return zap.New(core, zap.WithFatalHook(fatalHook(fatal)), zap.WithPanicHook(fatalHook(fatal)))
}

// expected are warnings about what is meant to be so.
var expected = map[string]bool{
	"Running http and grpc server on single port. This is not recommended for production.": true,
	"simple token is not cryptographically signed":                                         true,
	// A member that leads within milliseconds is asked for its storage version before it has written one. Asked again
	// every few seconds.
	"Failed to detect schema version":  true,
	"failed to update storage version": true,
	// Tried again until it works; it is too early while the log is replayed.
	"failed to publish local member to cluster through raft": true,
}

// cannotCampaign is in what raft says each time campaign comes too early.
const cannotCampaign = "cannot campaign at term"

// tookLong is said of each request above 100 ms, with all of the request: many lines whenever the machine is busy. Of a
// disk that is slow etcd warns separately.
const tookLong = "apply request took too long"

type slogCore struct {
	log     *slog.Logger
	closing <-chan struct{}
}

func (c *slogCore) Enabled(l zapcore.Level) bool { return l >= zapcore.WarnLevel }

func (c *slogCore) With(fields []zapcore.Field) zapcore.Core {
	return &slogCore{log: c.log.With(attrs(fields)...), closing: c.closing}
}

func (c *slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) && !expected[e.Message] && !strings.Contains(e.Message, cannotCampaign) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c *slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	select {
	case <-c.closing:
		return nil
	default:
	}
	level := slog.LevelError
	switch {
	case e.Message == tookLong:
		level = slog.LevelInfo
	case e.Level == zapcore.WarnLevel:
		level = slog.LevelWarn
	}
	c.log.Log(context.Background(), level, e.Message, attrs(fields)...)
	return nil
}

func (c *slogCore) Sync() error { return nil }

func attrs(fields []zapcore.Field) []any {
	m := zapcore.NewMapObjectEncoder()
	out := make([]any, 0, len(fields))
	for _, f := range fields {
		f.AddTo(m)
		if v, ok := m.Fields[f.Key]; ok {
			if d, isDuration := v.(time.Duration); isDuration {
				v = d.String()
			}
			out = append(out, slog.Any(f.Key, v))
		}
	}
	return out
}

type fatalHook func(fatalEntry)

// OnWrite tells of the entry and ends the goroutine, deferred calls included.
func (h fatalHook) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	entry := fatalEntry{message: ce.Message}
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			entry.err = err
		}
	}
	h(entry)
	runtime.Goexit()
}
