package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// shell reads lines and runs each as a command; $? is the status of the one before. With -c it runs one line, in which
// `;` and `&&` part commands and `>` and `>>` at the end write to a file. Quotes keep words together and
// change nothing else; $NAME is the environment's.
func shell(args []string, s streams) error {
	sh := &interpreter{streams: s}
	if len(args) >= 2 && args[0] == "-c" {
		sh.line(args[1])
		return exit(sh.status)
	}
	prompt := ""
	if terminal(s.in) {
		prompt = "$ "
	}
	lines := bufio.NewScanner(s.in)
	for fmt.Fprint(s.out, prompt); lines.Scan(); fmt.Fprint(s.out, prompt) {
		if sh.line(lines.Text()); sh.done {
			break
		}
	}
	return errors.Join(lines.Err(), exitOrNil(sh.status))
}

func exitOrNil(status int) error {
	if status == 0 {
		return nil
	}
	return exit(status)
}

// terminal says whether in is a terminal, or looks like one.
func terminal(in any) bool {
	file, ok := in.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// interpreter is a shell's state.
type interpreter struct {
	streams
	status int
	done   bool // exit was called
}

func (sh *interpreter) line(text string) {
	skip := false
	var current []string
	for _, word := range append(words(text), ";") {
		if word != ";" && word != "&&" {
			current = append(current, word)
			continue
		}
		if len(current) > 0 && !skip && !sh.done {
			sh.run(current)
		}
		current, skip = nil, word == "&&" && (sh.status != 0 || skip)
	}
}

func (sh *interpreter) run(args []string) {
	for i, arg := range args {
		args[i] = os.Expand(arg, sh.variable)
	}
	out := sh.out
	if n := len(args); n > 2 && (args[n-2] == ">" || args[n-2] == ">>") {
		mode := os.O_TRUNC
		if args[n-2] == ">>" {
			mode = os.O_APPEND
		}
		file, err := os.OpenFile(args[n-1], os.O_WRONLY|os.O_CREATE|mode, 0o644)
		if err != nil {
			fmt.Fprintln(sh.err, "sh:", err)
			sh.status = 1
			return
		}
		defer func() { _ = file.Close() }()
		args, out = args[:n-2], file
	}
	sh.done = args[0] == "exit"
	sh.status = command(args, sh.in, out, sh.err)
}

// variable is what $NAME stands for.
func (sh *interpreter) variable(name string) string {
	if name == "?" {
		return strconv.Itoa(sh.status)
	}
	return os.Getenv(name)
}

// words splits a line at blanks; quotes keep a word together, `;` is a word of its own.
func words(line string) []string {
	var out []string
	var word strings.Builder
	var quote rune
	begun := false
	end := func() {
		if begun {
			out = append(out, word.String())
			word.Reset()
			begun = false
		}
	}
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, begun = r, true
		case r == ' ' || r == '\t' || r == '\r':
			end()
		case r == ';':
			end()
			out = append(out, ";")
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	end()
	return out
}
