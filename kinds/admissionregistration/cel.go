package admissionregistration

import (
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// parser is an environment without names: it knows CEL's grammar, and that optional fields are written with a question
// mark.
var parser = sync.OnceValues(func() (*cel.Env, error) { return cel.NewEnv(cel.OptionalTypes()) })

// validateExpression checks the grammar of a CEL expression.
func validateExpression(expression string, path *field.Path) field.ErrorList {
	env, err := parser()
	if err != nil {
		return field.ErrorList{field.InternalError(path, err)}
	}
	if _, issues := env.Parse(expression); issues.Err() != nil {
		return field.ErrorList{field.Invalid(path, expression, "compilation failed: "+issues.String())}
	}
	return nil
}

// requireExpression is validateExpression for one that there has to be. detail says so.
func requireExpression(expression string, path *field.Path, detail string) field.ErrorList {
	if strings.TrimSpace(expression) == "" {
		return field.ErrorList{field.Required(path, detail)}
	}
	return validateExpression(expression, path)
}

var identifier = regexp.MustCompile(`^[_a-zA-Z][_a-zA-Z0-9]*$`)

// reserved are the words that are no identifiers in CEL.
var reserved = []string{
	"true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let",
	"loop", "package", "namespace", "return", "var", "void", "while",
}

func isIdentifier(name string) bool {
	return identifier.MatchString(name) && !slices.Contains(reserved, name)
}
