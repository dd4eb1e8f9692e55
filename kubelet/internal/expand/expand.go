// Package expand resolves the references $(NAME) in commands, variables and paths of containers.
package expand

import "strings"

// String replaces each $(NAME) in s by what value says of NAME, and leaves those alone for which it has nothing. $$ stands for
// one dollar, so that $$(NAME) is the text $(NAME). A $ before anything else, and a $( that is never closed, stand for
// themselves.
func String(s string, value func(name string) (string, bool)) string {
	at := strings.IndexByte(s, '$')
	if at < 0 {
		return s
	}
	var out strings.Builder
	for ; at >= 0; at = strings.IndexByte(s, '$') {
		out.WriteString(s[:at])
		s = s[at+1:]
		switch {
		case strings.HasPrefix(s, "$"):
			s = s[1:]
			out.WriteByte('$')
		case strings.HasPrefix(s, "("):
			end := strings.IndexByte(s, ')')
			if end < 0 {
				out.WriteByte('$')
				continue
			}
			if v, ok := value(s[1:end]); ok {
				out.WriteString(v)
			} else {
				out.WriteByte('$')
				out.WriteString(s[:end+1])
			}
			s = s[end+1:]
		default:
			out.WriteByte('$')
		}
	}
	out.WriteString(s)
	return out.String()
}
