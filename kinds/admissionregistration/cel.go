package admissionregistration

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
	"k8s.io/apiserver/pkg/cel/environment"
)

// What expressions evaluate to.
var (
	condition     = []*cel.Type{cel.BoolType}
	text          = []*cel.Type{cel.StringType}
	optionalText  = []*cel.Type{cel.StringType, cel.NullType}
	anything      = []*cel.Type{cel.AnyType, cel.DynType}
	jsonPatches   = []*cel.Type{cel.ListType(types.NewObjectType("JSONPatch"))}
	configuration = []*cel.Type{types.NewObjectType("Object")}
)

// expression is a CEL expression, with its name if it is a variable.
type expression struct {
	name, text string
	types      []*cel.Type
}

func (e *expression) GetName() string          { return e.name }
func (e *expression) GetExpression() string    { return e.text }
func (e *expression) ReturnTypes() []*cel.Type { return e.types }

// environments are the names and functions of admission expressions.
var environments = sync.OnceValue(func() *environment.EnvSet {
	return environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion())
})

// plain compiles expressions without variables of their own. To make a compiler takes milliseconds, so there is one.
var plain = sync.OnceValue(func() plugincel.Compiler { return plugincel.NewCompiler(environments()) })

// compiler checks the expressions of one object.
type compiler struct {
	plugincel.Compiler
	names  plugincel.OptionalVariableDeclarations
	stored sets.Set[string] // were good once, and so may use what only newer servers know
}

func (c *compiler) mode(text string) environment.Type {
	if c.stored.Has(text) {
		return environment.StoredExpressions
	}
	return environment.NewExpressions
}

// check compiles an expression.
func (c *compiler) check(expr string, types []*cel.Type, path *field.Path) field.ErrorList {
	result := c.CompileCELExpression(&expression{text: expr, types: types}, c.names, c.mode(expr))
	return compileErrors(result.Error, expr, path)
}

// require is check for an expression that there has to be. detail says so.
func (c *compiler) require(expr string, types []*cel.Type, path *field.Path, detail string) field.ErrorList {
	if strings.TrimSpace(expr) == "" {
		return field.ErrorList{field.Required(path, detail)}
	}
	return c.check(expr, types, path)
}

// variable is require for what later expressions may name.
func (c *compiler) variable(name, expr string, path *field.Path) field.ErrorList {
	composing, ok := c.Compiler.(*plugincel.CompositedCompiler)
	if strings.TrimSpace(expr) == "" || !ok {
		return field.ErrorList{field.Required(path, "expression is not specified")}
	}
	result := composing.CompileAndStoreVariable(&expression{name, expr, anything}, c.names, c.mode(expr))
	return compileErrors(result.Error, expr, path)
}

// with is c with other names.
func (c *compiler) with(change func(*plugincel.OptionalVariableDeclarations)) *compiler {
	other := *c
	change(&other.names)
	return &other
}

func compileErrors(err *apiservercel.Error, expr string, path *field.Path) field.ErrorList {
	if err == nil {
		return nil
	}
	switch err.Type {
	case apiservercel.ErrorTypeRequired:
		return field.ErrorList{field.Required(path, err.Detail)}
	case apiservercel.ErrorTypeInvalid:
		return field.ErrorList{field.Invalid(path, expr, err.Detail)}
	}
	return field.ErrorList{field.InternalError(path, fmt.Errorf("compile expression: %w", errors.New(err.Detail)))}
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
