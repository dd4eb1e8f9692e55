// Command ociimage makes an image archive of one static program: a tar of an OCI image layout, which containerd, skopeo and
// others read. Several names make as many images, of one layer.
//
//	ociimage --output demo.tar --program bin/demo --port 8080 demo:1 demo:2
//
// The same input makes the same bytes: no time, no user and no order of this machine is in them. Names are normalised as
// container runtimes do it: "demo" is what `image: demo` in a pod means.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/distribution/reference"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "ociimage:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("ociimage", flag.ContinueOnError)
	output := flags.String("output", "", "archive to write")
	program := flags.String("program", "", "static program, which becomes the entry point")
	user := flags.String("user", "", "UID:GID that it runs as; empty: root")
	furnish := flags.Bool("furnish", false, "add /tmp, /etc/passwd and names in /bin for the program's sub-commands")
	arch := flags.String("arch", runtime.GOARCH, "architecture of the program")
	var ports, env list
	flags.Var(&ports, "port", "TCP port that it listens on; may be repeated")
	flags.Var(&env, "env", "NAME=VALUE for its environment, {{tag}} is the image's tag; may be repeated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *output == "" || *program == "" || flags.NArg() == 0 {
		return fmt.Errorf("want --output, --program and at least one image name")
	}
	binary, err := os.ReadFile(*program)
	if err != nil {
		return err
	}
	name := filepath.Base(*program)
	rootfs, err := layer(name, binary, *furnish)
	if err != nil {
		return fmt.Errorf("put %s into a layer: %w", *program, err)
	}
	var images []image
	for _, arg := range flags.Args() {
		ref, err := reference.ParseNormalizedNamed(arg)
		if err != nil {
			return fmt.Errorf("image name %q: %w", arg, err)
		}
		tagged, ok := reference.TagNameOnly(ref).(reference.NamedTagged)
		if !ok {
			return fmt.Errorf("image name %q has no tag", arg)
		}
		images = append(images, image{
			name: tagged.String(), tag: tagged.Tag(), entrypoint: "/" + name, arch: *arch, user: *user,
			ports: ports, env: expand(env, tagged.Tag()),
		})
	}
	return writeArchive(*output, rootfs, images)
}

// expand puts the tag into the environment of an image.
func expand(env []string, tag string) []string {
	var out []string
	for _, e := range env {
		out = append(out, strings.ReplaceAll(e, "{{tag}}", tag))
	}
	return out
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string     { return strings.Join(*l, ",") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }
