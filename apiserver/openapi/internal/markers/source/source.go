// Package source reads markers from the sources of API types.
package source

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"vigil/apiserver/openapi/internal/markers"
)

// patterns name the packages that are read.
var patterns = []string{
	"k8s.io/api/...",
	"k8s.io/apimachinery/pkg/apis/meta/v1", "k8s.io/apimachinery/pkg/runtime", "k8s.io/apimachinery/pkg/util/intstr", "k8s.io/apimachinery/pkg/api/resource",
	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1", "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1",
	"k8s.io/metrics/pkg/apis/metrics/v1beta1",
}

// Read reads all packages, as the module's go.mod has them, and returns the markers as JSON.
func Read() ([]byte, error) {
	list := exec.Command("go", append([]string{"list", "-f", "{{.ImportPath}} {{.Dir}}"}, patterns...)...)
	var failed bytes.Buffer
	list.Stderr = &failed
	output, err := list.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w: %s", err, failed.String())
	}
	all := map[string]map[string]markers.Type{}
	for line := range strings.Lines(string(output)) {
		path, dir, _ := strings.Cut(strings.TrimSpace(line), " ")
		version := path[strings.LastIndexByte(path, '/')+1:]
		if strings.HasPrefix(path, "k8s.io/api/") && (strings.Contains(version, "alpha") || strings.Contains(version, "beta")) {
			continue // of these only what is stable is served
		}
		types, err := readPackage(dir)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		if len(types) > 0 {
			all[path] = types
		}
	}
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(all); err != nil {
		return nil, err
	}
	return text.Bytes(), nil
}

// reader reads one package.
type reader struct {
	types map[string]markers.Type
	docs  bool              // no SwaggerDoc has them
	texts map[string]string // constants
}

func readPackage(dir string) (map[string]markers.Type, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return nil, err
	}
	_, noDocs := os.Stat(filepath.Join(dir, "types_swagger_doc_generated.go"))
	r := &reader{types: map[string]markers.Type{}, docs: noDocs != nil, texts: map[string]string{}}
	var parsed []*ast.File
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") || strings.Contains(name, "generated") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		parsed = append(parsed, file)
	}
	for _, file := range parsed {
		each(file, token.CONST, func(_ *ast.GenDecl, spec ast.Spec) { r.readText(spec.(*ast.ValueSpec)) })
	}
	enums := map[string]bool{}
	for _, file := range parsed {
		each(file, token.TYPE, func(decl *ast.GenDecl, spec ast.Spec) {
			err = errors.Join(err, r.readType(decl, spec.(*ast.TypeSpec), enums))
		})
	}
	if err != nil {
		return nil, err
	}
	for _, file := range parsed {
		each(file, token.CONST, func(_ *ast.GenDecl, spec ast.Spec) { r.readValue(spec.(*ast.ValueSpec), enums) })
	}
	for name, t := range r.types {
		slices.SortFunc(t.Enum, func(a, b markers.Value) int { return strings.Compare(a.Value, b.Value) })
		if reflect.DeepEqual(t, markers.Type{}) {
			delete(r.types, name)
		}
	}
	return r.types, nil
}

func each(file *ast.File, kind token.Token, fn func(*ast.GenDecl, ast.Spec)) {
	for _, decl := range file.Decls {
		if general, ok := decl.(*ast.GenDecl); ok && general.Tok == kind {
			for _, spec := range general.Specs {
				fn(general, spec)
			}
		}
	}
}

func (r *reader) readType(decl *ast.GenDecl, spec *ast.TypeSpec, enums map[string]bool) error {
	comment := spec.Doc
	if comment == nil {
		comment = decl.Doc
	}
	doc, marks := split(comment)
	t := markers.Type{MapType: first(marks["structType"], marks["mapType"])}
	if r.docs {
		t.Doc = doc
	}
	enums[spec.Name.Name] = marks["enum"] != nil
	if body, ok := spec.Type.(*ast.StructType); ok {
		for _, f := range body.Fields.List {
			name, field, err := r.readField(f)
			if err != nil {
				return fmt.Errorf("%s.%s: %w", spec.Name.Name, name, err)
			}
			if name == "" || reflect.DeepEqual(field, markers.Field{}) {
				continue
			}
			if t.Fields == nil {
				t.Fields = map[string]markers.Field{}
			}
			t.Fields[name] = field
		}
	}
	r.types[spec.Name.Name] = t
	return nil
}

// readField returns the field's JSON name, "" if it has none of its own.
func (r *reader) readField(f *ast.Field) (string, markers.Field, error) {
	if f.Tag == nil {
		return "", markers.Field{}, nil
	}
	tag, err := strconv.Unquote(f.Tag.Value)
	if err != nil {
		return "", markers.Field{}, err
	}
	name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	if name == "" || name == "-" {
		return "", markers.Field{}, nil
	}
	doc, marks := split(f.Doc)
	field := markers.Field{ListType: first(marks["listType"]), MapKeys: marks["listMapKey"], MapType: first(marks["structType"], marks["mapType"])}
	if r.docs {
		field.Doc = doc
	}
	if value := first(marks["default"]); value != "" {
		if name, ok := strings.CutPrefix(value, "ref("); ok {
			value = strconv.Quote(r.texts[strings.TrimSuffix(name, ")")])
		}
		if !json.Valid([]byte(value)) {
			return name, field, fmt.Errorf("the default %s is no JSON", value)
		}
		field.Default = json.RawMessage(value)
	}
	return name, field, nil
}

// readText keeps the value of a constant that is a text.
func (r *reader) readText(spec *ast.ValueSpec) {
	for i, value := range spec.Values {
		if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
			r.texts[spec.Names[i].Name], _ = strconv.Unquote(literal.Value)
		}
	}
}

func (r *reader) readValue(spec *ast.ValueSpec, enums map[string]bool) {
	of, ok := spec.Type.(*ast.Ident)
	if !ok || !enums[of.Name] {
		return
	}
	name := spec.Names[0].Name
	value, ok := r.texts[name]
	if !ok {
		return
	}
	doc, _ := split(spec.Doc)
	t := r.types[of.Name]
	t.Enum = append(t.Enum, markers.Value{Value: value, Doc: strings.TrimPrefix(strings.Join(strings.Fields(doc), " "), name+" ")})
	r.types[of.Name] = t
}

func first(lists ...[]string) string {
	for _, list := range lists {
		if len(list) > 0 {
			return list[0]
		}
	}
	return ""
}

// split parts a comment into its text, as SwaggerDoc has it, and its markers with the values of each. What stands below "---" is for
// readers of the source.
func split(comment *ast.CommentGroup) (string, map[string][]string) {
	marks := map[string][]string{}
	if comment == nil {
		return "", marks
	}
	var doc strings.Builder
	gap := ""
	ended := false
	for line := range strings.Lines(comment.Text()) {
		line = strings.TrimRight(line, " \n")
		trimmed := strings.TrimLeft(line, " \t")
		switch {
		case strings.HasPrefix(trimmed, "+"):
			name, value, _ := strings.Cut(trimmed[1:], "=")
			marks[name] = append(marks[name], strings.Trim(value, "`"))
		case ended:
		case trimmed == "---":
			ended = true
		case trimmed == "":
			if doc.Len() > 0 {
				gap = "\n\n"
			}
		case strings.HasPrefix(trimmed, "TODO"):
		default:
			if line != trimmed && !strings.HasSuffix(gap, "\n") && doc.Len() > 0 {
				gap = "\n" // an indented line stands for itself
			}
			doc.WriteString(gap + line)
			gap = " "
			if line != trimmed {
				gap = "\n"
			}
		}
	}
	return doc.String(), marks
}
