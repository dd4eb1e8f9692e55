package store

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"go.uber.org/zap"
)

func TestZapLogger(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})
	closing := make(chan struct{})
	log := zapLogger(slog.New(handler), closing, nil)
	log.Info("elected")
	log.Warn("simple token is not cryptographically signed")
	log.Warn("apply request took too long", zap.Int("size", 3))
	log.Warn("slow fdatasync")
	log.With(zap.String("path", "x")).Error("failed", zap.Error(errors.New("why")))
	close(closing)
	log.Error("late")
	want := "level=INFO msg=\"apply request took too long\" component=etcd size=3\n" +
		"level=WARN msg=\"slow fdatasync\" component=etcd\n" +
		"level=ERROR msg=failed component=etcd path=x error=why\n"
	if got := out.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}
