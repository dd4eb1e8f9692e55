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

// build makes all binaries, Vigil's as make build does. The peer and etcd are modules of their own, so that
// each keeps the versions that its authors pinned.
func (e *environment) build(ctx context.Context) error {
	bin := filepath.Join(e.out, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	goIn := func(dir string, args ...string) error { return e.goIn(ctx, dir, args...) }
	if err := goIn(".", "build", "-o", bin+"/", "./load", "./informer"); err != nil {
		return err
	}
	if err := goIn("etcd", "build", "-o", e.bin("etcd"), "."); err != nil {
		return err
	}
	if err := e.generate(ctx); err != nil {
		return err
	}
	if err := goIn("peer", "build", "-o", e.bin("peer"), "."); err != nil {
		return err
	}
	if e.vigil == "" {
		e.vigil = e.bin("vigil")
		return e.in(ctx, "..", "make", "build", "BIN="+bin)
	}
	return nil
}

// generate makes the peer's sources that are not in the repository, if they are not there: upstream's OpenAPI definitions.
func (e *environment) generate(ctx context.Context) error {
	generated := filepath.Join(e.root, "peer", "openapi")
	if _, err := os.Stat(filepath.Join(generated, "zz_generated.openapi.go")); err == nil {
		return nil
	}
	if err := os.MkdirAll(generated, 0o755); err != nil {
		return err
	}
	args := []string{"tool", "openapi-gen", "--output-dir", "openapi", "--output-pkg", "vigil/bench/peer/openapi",
		"--output-file", "zz_generated.openapi.go", "--go-header-file", os.DevNull, "--report-filename", os.DevNull}
	return e.goIn(ctx, "peer", append(args, openapiPackages...)...)
}

// goIn runs the go command in a folder of bench.
func (e *environment) goIn(ctx context.Context, dir string, args ...string) error {
	return e.in(ctx, dir, "go", args...)
}

// in runs a program in a folder of bench.
func (e *environment) in(ctx context.Context, dir, program string, args ...string) error {
	fmt.Fprintln(os.Stderr, "+", program, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = filepath.Join(e.root, dir)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s in %s: %w", program, args[0], dir, err)
	}
	return nil
}
