package lint

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// A log line says, to somebody who has not seen the code: who did or could not do what to which object, what follows, and what to do if
// there is something. "the kubelet could not renew the node's lease; it tries again". The details are attributes.

// messageAt is where the message is among the arguments of what logs: methods of slog.Logger, and our own functions around them.
var messageAt = map[string]int{
	"Debug": 0, "Info": 0, "Warn": 0, "Error": 0,
	"DebugContext": 1, "InfoContext": 1, "WarnContext": 1, "ErrorContext": 1, "Log": 2,
	"warn":    1, // kubelet: (*worker).warn
	"persist": 1, // kubelet/csi: (*registry).persist
}

// passedOn are the messages that are no literals, since their function is one of those around slog's.
var passedOn = []string{"what", "trouble", "places[place].follows", "e.Message"}

// loggers are the names by which loggers are called, at the end of an expression.
var loggers = regexp.MustCompile(`(^|\.)(log|logger|Logger|slog)$`)

func TestLogLines(t *testing.T) {
	seen := 0
	eachFile(t, func(path string, files *token.FileSet, file *ast.File) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "kinds/") { // where what is called warn is told to clients
			return
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			message, attributes, ok := logCall(call)
			if !ok {
				return true
			}
			seen++
			for _, wrong := range append(wrongMessage(message), wrongAttributes(attributes)...) {
				t.Errorf("%s: the log line %s %s", files.Position(call.Pos()), types.ExprString(message), wrong)
			}
			return true
		})
	})
	if seen < 100 {
		t.Errorf("only %d log lines were found: is this still looking where they are?", seen)
	}
}

// logCall takes a call apart that logs.
func logCall(call *ast.CallExpr) (message ast.Expr, attributes []ast.Expr, ok bool) {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, nil, false
	}
	at, ok := messageAt[method.Sel.Name]
	receiver := types.ExprString(method.X)
	ours := slices.Contains([]string{"w.warn", "l.warn", "r.persist"}, receiver+"."+method.Sel.Name)
	if !ok || len(call.Args) <= at || !ours && !loggers.MatchString(receiver) {
		return nil, nil, false
	}
	attributes = call.Args[at+1:]
	if ours { // pod and error, or a function
		attributes = attributes[min(len(attributes), 2):]
	}
	if call.Ellipsis.IsValid() {
		attributes = nil
	}
	return call.Args[at], attributes, true
}

// wrongMessage says what is wrong with a message.
func wrongMessage(message ast.Expr) (wrong []string) {
	literal, ok := message.(*ast.BasicLit)
	if !ok {
		if !slices.Contains(passedOn, types.ExprString(message)) {
			wrong = append(wrong, "is no constant: what differs belongs into attributes")
		}
		return wrong
	}
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		return []string{err.Error()}
	}
	words := strings.Fields(text)
	if len(words) < 3 {
		return append(wrong, "is too short to say who did what")
	}
	if first := []rune(words[0]); unicode.IsUpper(first[0]) && !unicode.IsUpper(first[1]) { // an acronym may begin it
		wrong = append(wrong, "begins with a capital letter")
	}
	if slices.Contains([]string{"cannot", "could", "can't", "will", "not", "no", "unable", "failed", "failure", "error"}, strings.ToLower(words[0])) {
		wrong = append(wrong, "does not name who or what it is about")
	}
	if last := text[len(text)-1]; strings.IndexByte(".,:;! \n", last) >= 0 {
		wrong = append(wrong, "ends with a punctuation mark or a space")
	}
	if strings.ContainsAny(text, "\n%") {
		wrong = append(wrong, "has a line break or a format in it")
	}
	return wrong
}

var keys = regexp.MustCompile(`^[a-z][A-Za-z0-9]*$`)

// wrongAttributes says what is wrong with keys and values.
func wrongAttributes(attributes []ast.Expr) (wrong []string) {
	if len(attributes)%2 != 0 {
		return []string{"has a key without a value"}
	}
	for i := 0; i < len(attributes); i += 2 {
		literal, ok := attributes[i].(*ast.BasicLit)
		if !ok {
			wrong = append(wrong, "has a key that is no constant: "+types.ExprString(attributes[i]))
			continue
		}
		key, _ := strconv.Unquote(literal.Value)
		value := strings.ToLower(types.ExprString(attributes[i+1]))
		if !keys.MatchString(key) {
			wrong = append(wrong, "has the key "+literal.Value+", want words joined like this: resourceVersion")
		}
		if isError := value == "err" || strings.HasSuffix(value, "err") || strings.HasSuffix(value, ".err()"); key == "err" || isError && key != "error" {
			wrong = append(wrong, "has the key "+literal.Value+" for an error, want \"error\"")
		}
	}
	return wrong
}

// TestLogLines_Finds: the rules find what they are for.
func TestLogLines_Finds(t *testing.T) {
	for line, want := range map[string]string{
		`log.Info("the kubelet starts", "node", name, "error", err)`:      "",
		`log.Info("API priorities are taken over", "resourceVersion", v)`: "",
		`log.Log(ctx, level, "a reconciliation failed", "key", key)`:      "",
		`log.With("a", b).Warn("x")`:                                      "",
		`c.log.Warn("cannot read node", "node", name)`:                    "who or what",
		`c.config.Logger.Warn("The kubelet starts")`:                      "capital",
		`logger.Warn("the kubelet starts.")`:                              "punctuation",
		`logger.Warn("ended again")`:                                      "too short",
		`slog.Warn("the kubelet starts", "err", err)`:                     "for an error",
		`slog.Warn("the kubelet starts", "because", err)`:                 "for an error",
		`slog.Warn("the kubelet starts", "node name", n)`:                 "want words joined",
		`slog.Warn("the kubelet starts", "node")`:                         "without a value",
		`slog.Warn("the kubelet starts on "+node)`:                        "no constant",
		`w.warn(ctx, "cannot sync pod", pod, err)`:                        "who or what",
		`w.warn(ctx, "the pod does not start", pod, err, "err", other)`:   "for an error",
	} {
		expr, err := parser.ParseExpr(line)
		if err != nil {
			t.Fatal(err)
		}
		var wrong []string
		if message, attributes, ok := logCall(expr.(*ast.CallExpr)); ok {
			wrong = append(wrongMessage(message), wrongAttributes(attributes)...)
		}
		if got := strings.Join(wrong, "; "); want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
}
