// Package expand resolves the references $(NAME) in commands, variables and paths of containers, and says how much a process can be given: a value of
// references to values of references grows tenfold with each.
package expand

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// What Linux gives to a new process at most, in bytes: one argument or variable ("NAME=value"), without the NUL behind it (MAX_ARG_STRLEN, 32 pages),
// and all of them together (three quarters of _STK_LIM; a process whose stack is limited gets less).
var (
	Limit      = 32*os.Getpagesize() - 1
	TotalLimit = 6 << 20
)

// ErrTooLong says that something is longer than it may be. Its text is what the kernel says when it is asked to run such a process.
var ErrTooLong = errors.New("argument list too long")

// String replaces each $(NAME) in s by what value says of NAME, and leaves those alone for which it has nothing. $$ stands for
// one dollar, so that $$(NAME) is the text $(NAME). A $ before anything else, and a $( that is never closed, stand for
// themselves. It fails with ErrTooLong when the result has more than limit bytes.
func String(s string, value func(name string) (string, bool), limit int) (string, error) {
	at := strings.IndexByte(s, '$')
	if at < 0 && len(s) <= limit {
		return s, nil
	}
	out := bounded{limit: limit}
	for ; at >= 0 && !out.over; at = strings.IndexByte(s, '$') {
		out.add(s[:at])
		s = s[at+1:]
		switch {
		case strings.HasPrefix(s, "$"):
			s = s[1:]
			out.add("$")
		case strings.HasPrefix(s, "("):
			end := strings.IndexByte(s, ')')
			if end < 0 { // and there is none for any other
				out.add("$")
				out.add(strings.ReplaceAll(s, "$$", "$"))
				s = ""
				continue
			}
			if v, ok := value(s[1:end]); ok {
				out.add(v)
			} else {
				out.add("$")
				out.add(s[:end+1])
			}
			s = s[end+1:]
		default:
			out.add("$")
		}
	}
	out.add(s)
	if out.over {
		return "", fmt.Errorf("more than %d bytes: %w", limit, ErrTooLong)
	}
	return out.String(), nil
}

// bounded takes as much as it may.
type bounded struct {
	strings.Builder
	limit int
	over  bool // there was more
}

func (b *bounded) add(s string) {
	if b.over = b.over || b.Len()+len(s) > b.limit; !b.over {
		b.WriteString(s)
	}
}

// All resolves the references in the words of a command, which it does not change. It fails with ErrTooLong when one is longer than Limit, or all
// are longer than TotalLimit.
func All(words []string, value func(name string) (string, bool)) ([]string, error) {
	if !slices.ContainsFunc(words, func(word string) bool { return strings.Contains(word, "$") }) {
		return words, nil
	}
	out, total := make([]string, len(words)), 0
	for i, word := range words {
		expanded, err := String(word, value, Limit)
		if err != nil {
			return nil, fmt.Errorf("word %d of the command: %w", i+1, err)
		}
		if total += len(expanded) + 1; total > TotalLimit {
			return nil, fmt.Errorf("the command: more than %d bytes: %w", TotalLimit, ErrTooLong)
		}
		out[i] = expanded
	}
	return out, nil
}
