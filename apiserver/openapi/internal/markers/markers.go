// Package markers holds what the sources of API types say in comments and reflection cannot see: how lists and maps merge
// (+listType, +listMapKey, +mapType, +structType), defaults (+default), the values of enums (+enum), and the descriptions of types that come
// without SwaggerDoc. It is read from the sources by `go generate` into markers.json; package source does that.
package markers

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"sync"
)

//go:generate go run ./generate

// JSON is the generated file.
//
//go:embed markers.json
var JSON []byte

// Type is what the source of a type says.
type Type struct {
	Doc     string           `json:"doc,omitempty"`
	MapType string           `json:"mapType,omitempty"` // "atomic" for structs and maps that are owned as a whole
	Enum    []Value          `json:"enum,omitempty"`    // by value
	Fields  map[string]Field `json:"fields,omitempty"`  // by JSON name
}

// Value is one of an enum.
type Value struct {
	Value string `json:"value"`
	Doc   string `json:"doc,omitempty"`
}

// Field is what the source of a struct says about a field.
type Field struct {
	Doc      string          `json:"doc,omitempty"`
	ListType string          `json:"listType,omitempty"` // atomic, set or map
	MapKeys  []string        `json:"mapKeys,omitempty"`  // of a list that is a map
	MapType  string          `json:"mapType,omitempty"`
	Default  json.RawMessage `json:"default,omitempty"`
}

var all = sync.OnceValue(func() map[string]map[string]Type {
	var types map[string]map[string]Type
	if err := json.Unmarshal(JSON, &types); err != nil {
		panic(fmt.Sprintf("markers.json: %v", err)) // it is a part of the program
	}
	return types
})

// Of returns what is known of a Go type, the zero Type if that is nothing.
func Of(t reflect.Type) Type { return all()[t.PkgPath()][t.Name()] }
