package connectionlog

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"k8s.io/klog/v2"
)

func TestContext(t *testing.T) {
	for level, want := range map[slog.Level]string{slog.LevelInfo: "", slog.LevelDebug: `level=DEBUG msg="it broke" err=why a=1`} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		logger := klog.FromContext(Context(t.Context(), log))
		logger.V(4).Info("not said")
		logger.Error(errors.New("why"), "it broke", "a", 1)
		if got := strings.TrimSpace(out.String()); !strings.HasSuffix(got, want) || strings.Count(got, "\n") > 0 || want == "" && got != "" {
			t.Errorf("%v: got %q", level, got)
		}
	}
}
