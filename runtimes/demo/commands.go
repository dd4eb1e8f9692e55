package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// exit is an error that is only the status to end with.
type exit int

func (e exit) Error() string { return "exit status " + strconv.Itoa(int(e)) }

// streams are what a command reads and writes.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// commands by name. It is filled in a function, because sh runs the others.
var commands = table()

func table() map[string]func(args []string, s streams) error {
	return map[string]func([]string, streams) error{
		"serve":       func(args []string, s streams) error { return serve(args, s.out) },
		"sh":          func(args []string, s streams) error { return shell(args, s) },
		"sleep":       sleep,
		"spin":        spin,
		"hog":         hog,
		"exit":        quit,
		"ignore-term": ignoreTerm,
		"echo":        echo,
		"env":         env,
		"hostname":    hostname,
		"id":          id,
		"cat":         cat,
		"ls":          ls,
		"write":       write,
		"touch-later": touchLater,
		"fetch":       fetch,
		"fill":        fill,
		"tar":         archive,
	}
}

// command runs one command and gives its exit status.
func command(args []string, in io.Reader, out, errOut io.Writer) int {
	run := table()[args[0]]
	if run == nil {
		fmt.Fprintf(errOut, "demo: no command %q\n", args[0])
		return 127
	}
	err := run(args[1:], streams{in, out, errOut})
	var status exit
	switch {
	case err == nil:
		return 0
	case errors.As(err, &status):
		return int(status)
	default:
		fmt.Fprintf(errOut, "%s: %v\n", args[0], err)
		return 1
	}
}

// want says that a command was called with too few arguments.
func want(args []string, n int, usage string) error {
	if len(args) < n {
		return errors.New("usage: demo " + usage)
	}
	return nil
}

func seconds(text string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return time.Duration(n * float64(time.Second)), nil
	}
	return time.ParseDuration(text)
}

// sleep ends with 143 on SIGTERM, as a process without a handler would: the first process of a PID namespace does not have
// the default action.
func sleep(args []string, _ streams) error {
	if err := want(args, 1, "sleep SECONDS"); err != nil {
		return err
	}
	d, err := seconds(args[0])
	if err != nil {
		return err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(stop)
	select {
	case s := <-stop:
		return exit(128 + int(s.(syscall.Signal)))
	case <-time.After(d):
		return nil
	}
}

func ignoreTerm(_ []string, s streams) error {
	received := make(chan os.Signal, 1)
	signal.Notify(received, syscall.SIGTERM)
	for sig := range received {
		fmt.Fprintln(s.out, "ignored", sig)
	}
	return nil
}

func spin([]string, streams) error {
	for n := uint64(1); ; n = n*6364136223846793005 + 1 {
		if n == 0 {
			return nil // never: the sequence has no zero before 2^64 steps
		}
	}
}

func hog(args []string, s streams) error {
	if err := want(args, 1, "hog MB"); err != nil {
		return err
	}
	mb, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	held := allocate(mb)
	fmt.Fprintf(s.out, "holding %d MB\n", len(held))
	return sleep([]string{"1000000h"}, s)
}

// allocate gives mb pieces of a megabyte, each page of them written to.
func allocate(mb int) [][]byte {
	held := make([][]byte, 0, mb)
	for range mb {
		held = append(held, bytes.Repeat([]byte{1}, 1<<20))
	}
	return held
}

func quit(args []string, _ streams) error {
	if len(args) == 0 {
		return exit(0)
	}
	code, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	return exit(code)
}

func echo(args []string, s streams) error {
	_, err := fmt.Fprintln(s.out, strings.Join(args, " "))
	return err
}

func env(_ []string, s streams) error {
	all := os.Environ()
	slices.Sort(all)
	_, err := fmt.Fprintln(s.out, strings.Join(all, "\n"))
	return err
}

func hostname(_ []string, s streams) error {
	name, err := os.Hostname()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(s.out, name)
	return err
}

func id(_ []string, s streams) error {
	groups, err := os.Getgroups()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.out, "uid=%d gid=%d groups=%s\n", os.Getuid(), os.Getgid(), strings.Trim(strings.ReplaceAll(fmt.Sprint(groups), " ", ","), "[]"))
	return err
}

// cat without arguments copies its input.
func cat(args []string, s streams) error {
	if len(args) == 0 {
		_, err := io.Copy(s.out, s.in)
		return err
	}
	for _, name := range args {
		if err := catFile(name, s.out); err != nil {
			return err
		}
	}
	return nil
}

func catFile(name string, out io.Writer) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(out, file)
	return err
}

// ls prints mode, owner, size and name of what is in each directory, links with what they lead to.
func ls(args []string, s streams) error {
	args = slices.DeleteFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") }) // the long form, with hidden files, it is always
	if len(args) == 0 {
		args = []string{"."}
	}
	for _, dir := range args {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		for _, entry := range entries {
			if err := lsEntry(dir, entry, s.out); err != nil {
				return err
			}
		}
	}
	return nil
}

func lsEntry(dir string, entry os.DirEntry, out io.Writer) error {
	info, err := entry.Info()
	if err != nil {
		return err
	}
	name := entry.Name()
	if info.Mode()&os.ModeSymlink != 0 {
		target, err := os.Readlink(dir + "/" + name)
		if err != nil {
			target = "?" // of another's process
		}
		name += " -> " + target
	}
	owner := "? ?"
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = fmt.Sprint(stat.Uid, " ", stat.Gid)
	}
	_, err = fmt.Fprintf(out, "%s %s %d %s\n", info.Mode(), owner, info.Size(), name)
	return err
}

func write(args []string, _ streams) error {
	if err := want(args, 2, "write FILE TEXT..."); err != nil {
		return err
	}
	return os.WriteFile(args[0], []byte(strings.Join(args[1:], " ")+"\n"), 0o644)
}

func touchLater(args []string, s streams) error {
	if err := want(args, 2, "touch-later SECONDS FILE"); err != nil {
		return err
	}
	if err := sleep(args[:1], s); err != nil {
		return err
	}
	return os.WriteFile(args[1], nil, 0o644)
}

func fetch(args []string, s streams) error {
	if err := want(args, 1, "fetch URL"); err != nil {
		return err
	}
	client := http.Client{Timeout: 10 * time.Second}
	response, err := client.Get(args[0])
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(s.out, response.Body); err != nil {
		return err
	}
	if response.StatusCode >= 400 {
		return exit(22)
	}
	return nil
}

func fill(args []string, _ streams) error {
	if err := want(args, 2, "fill FILE MB"); err != nil {
		return err
	}
	mb, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	file, err := os.Create(args[0])
	if err != nil {
		return err
	}
	piece := bytes.Repeat([]byte("vigil..\n"), 1<<17)
	for range mb {
		if _, err := file.Write(piece); err != nil {
			return errors.Join(err, file.Close())
		}
	}
	return file.Close()
}
