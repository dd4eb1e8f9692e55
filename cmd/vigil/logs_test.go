package main

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/go-logr/logr"
)

// Errors have one key, whether Vigil logs them or a library.
func TestNameErrors(t *testing.T) {
	var out bytes.Buffer
	handler := slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: nameErrors})
	logr.FromSlogHandler(libraryHandler{handler}).Error(errors.New("why"), "it broke")
	slog.New(handler).Error("ours broke", "error", errors.New("why not"))
	if got := out.String(); !strings.Contains(got, `msg="it broke" error=why`) || !strings.Contains(got, `error="why not"`) || strings.Contains(got, "err=") {
		t.Errorf("logged %s", got)
	}
}
