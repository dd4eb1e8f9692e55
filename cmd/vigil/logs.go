package main

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
)

// logFlags say what is logged to standard error and how.
type logFlags struct {
	level  string
	format string
	v      int
	module string
}

func (f *logFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.level, "log-level", "warn", "least level that is logged: debug, info, warn or error")
	flags.StringVar(&f.format, "logging-format", "text", "text or json")
	flags.IntVarP(&f.v, "v", "v", 0, "how much is logged, as upstream counts: from 1 on messages of level info, from 4 on debug, and what libraries log up to that number")
	flags.StringVar(&f.module, "vmodule", "", "FILE=N,...: --v for what libraries log in certain files")
}

// logger makes the process's logger. What libraries log through klog goes the same way.
func (f *logFlags) logger() (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level)); err != nil {
		return nil, fmt.Errorf("--log-level: %q is not one of debug, info, warn, error", f.level)
	}
	switch {
	case f.v >= 4:
		level = min(level, slog.LevelDebug)
	case f.v >= 1:
		level = min(level, slog.LevelInfo)
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: nameErrors}
	var handler slog.Handler
	switch f.format {
	case "text":
		handler = slog.NewTextHandler(os.Stderr, options)
	case "json":
		handler = slog.NewJSONHandler(os.Stderr, options)
	default:
		return nil, fmt.Errorf("--logging-format: %q is not text or json", f.format)
	}
	libraries := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(libraries)
	for name, value := range map[string]string{"v": strconv.Itoa(f.v), "vmodule": f.module} {
		if err := libraries.Set(name, value); err != nil {
			return nil, fmt.Errorf("--%s: %w", name, err)
		}
	}
	klog.SetSlogLogger(slog.New(libraryHandler{handler}))
	return slog.New(handler), nil
}

// nameErrors gives the errors of libraries, which log through logr, the key that ours have.
func nameErrors(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == "err" {
		a.Key = "error"
	}
	return a
}

// libraryHandler takes what libraries log. That an event could not be recorded is an error to client-go, and ordinary
// here: the server is stopping, or the namespace has gone.
type libraryHandler struct{ slog.Handler }

func (h libraryHandler) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "Unable to write event") || strings.HasPrefix(r.Message, "Server rejected event") {
		if r.Level = slog.LevelDebug; !h.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return h.Handler.Handle(ctx, r)
}

func (h libraryHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return libraryHandler{h.Handler.WithAttrs(attrs)}
}
func (h libraryHandler) WithGroup(name string) slog.Handler {
	return libraryHandler{h.Handler.WithGroup(name)}
}
