package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// runInformers measures client-go's informer as upstream's and Vigil's as Vigil's.
func (e *environment) runInformers(ctx context.Context, s scenario, server string) error {
	template := filepath.Join(e.ram, "pod.stored")
	if _, err := os.Stat(template); err != nil {
		if err := e.makeTemplate(ctx, template); err != nil {
			return fmt.Errorf("the pod that all others are made of: %w", err)
		}
	}
	impl := map[string]string{peer: "client-go", vigil: "vigil"}[server]
	fmt.Fprintf(os.Stderr, "\n== %s, %s\n", s.name, impl)
	cmd := exec.CommandContext(ctx, e.bin("informer"), "--impl", impl, "--pods", strconv.Itoa(s.data.pods), "--events", strconv.Itoa(e.sizes().informerEvents), "--template", template)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	for line := range bytes.Lines(out) {
		var r result
		if err := json.Unmarshal(line, &r); err != nil {
			return fmt.Errorf("%w: %s", err, line)
		}
		r["server"], r["group"], r["step"] = server, s.name, s.name
		e.record(r)
	}
	return nil
}
