package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// openapiPackages are what the peer's server-side apply needs the schema of.
var openapiPackages = []string{
	"k8s.io/api/core/v1",
	"k8s.io/apimachinery/pkg/apis/meta/v1",
	"k8s.io/apimachinery/pkg/runtime",
	"k8s.io/apimachinery/pkg/version",
	"k8s.io/apimachinery/pkg/util/intstr",
	"k8s.io/apimachinery/pkg/api/resource",
}

// build makes all binaries. The peer and etcd are modules of their own, so that
// each keeps the versions that its authors pinned.
func (e *environment) build(ctx context.Context) error {
	bin := filepath.Join(e.out, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	goIn := func(dir string, args ...string) error {
		fmt.Fprintln(os.Stderr, "+ go", strings.Join(args, " "))
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = filepath.Join(e.root, dir)
		cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("go %s in %s: %w", args[0], dir, err)
		}
		return nil
	}
	if err := goIn(".", "build", "-o", bin+"/", "./load", "./informer"); err != nil {
		return err
	}
	if err := goIn("etcd", "build", "-o", e.bin("etcd"), "."); err != nil {
		return err
	}
	generated := filepath.Join(e.root, "peer", "openapi")
	if _, err := os.Stat(filepath.Join(generated, "zz_generated.openapi.go")); err != nil {
		if err := os.MkdirAll(generated, 0o755); err != nil {
			return err
		}
		args := []string{"tool", "openapi-gen", "--output-dir", "openapi", "--output-pkg", "vigil/bench/peer/openapi",
			"--output-file", "zz_generated.openapi.go", "--go-header-file", os.DevNull, "--report-filename", os.DevNull}
		if err := goIn("peer", append(args, openapiPackages...)...); err != nil {
			return err
		}
	}
	if err := goIn("peer", "build", "-o", e.bin("peer"), "."); err != nil {
		return err
	}
	if e.vigil == "" {
		e.vigil = e.bin("vigil")
		return goIn("..", "build", "-ldflags", "-s -w", "-o", e.vigil, "./cmd/vigil")
	}
	return nil
}
