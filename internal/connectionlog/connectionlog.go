// Package connectionlog gives libraries that log through klog a logger that makes everything a debug message: what they call an error is
// a client that went away.
package connectionlog

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
)

// Context returns a context by which libraries log to log, at level Debug.
func Context(ctx context.Context, log *slog.Logger) context.Context {
	return klog.NewContext(ctx, logr.FromSlogHandler(handler{log.Handler()}))
}

type handler struct{ to slog.Handler }

func (h handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelInfo && h.to.Enabled(ctx, slog.LevelDebug)
}

func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if !h.Enabled(ctx, r.Level) { // nobody asks before errors
		return nil
	}
	r.Level = slog.LevelDebug
	return h.to.Handle(ctx, r)
}

func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler { return handler{h.to.WithAttrs(attrs)} }
func (h handler) WithGroup(name string) slog.Handler       { return handler{h.to.WithGroup(name)} }
