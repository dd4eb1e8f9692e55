package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// call is a line of an example that calls vigil, with what stands behind it and before a comment.
var call = regexp.MustCompile(`^ {4,}(?:\w+\$ +)?(?:.*&& )?(?:\./|bin/)?vigil ([a-z-]+(?: .*?)?)(?: {2,}#.*)?$`)

// Every command line of README and docs/guide that calls vigil names a subcommand that exists, with flags that it has and takes.
func TestGuide_Commands(t *testing.T) {
	pages, err := filepath.Glob("../../docs/guide/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("no pages in docs/guide: %v", err)
	}
	tried := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.SplitSeq(string(text), "\n") {
			m := call.FindStringSubmatch(line)
			if m == nil {
				continue
			}
			tried++
			if err := parse(strings.Fields(m[1])); err != nil {
				t.Errorf("%s: %s: %v", filepath.Base(page), strings.TrimSpace(line), err)
			}
		}
	}
	if tried < 15 {
		t.Errorf("found only %d commands", tried)
	}
}

// parse does what cobra does before it runs a command.
func parse(args []string) error {
	command, rest, err := newRoot().Find(args)
	if err != nil {
		return err
	}
	if command.DisableFlagParsing { // kubectl
		return nil
	}
	if err := command.ParseFlags(rest); err != nil && !errors.Is(err, pflag.ErrHelp) {
		return err
	}
	return command.ValidateArgs(command.Flags().Args())
}
