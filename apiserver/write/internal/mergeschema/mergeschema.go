// Package mergeschema says how the lists and maps of the kinds that client-go knows merge: the schema of client-go's apply
// configurations. client-go has it as YAML, which takes 100 ms of CPU to read at each start; here it is a generated
// text with one line for each field, which is read in 2 ms. Package source makes the text.
//
// The text has a line for each type, and under it one for each of its fields, indented by a tab:
//
//	io.k8s.api.core.v1.ServicePort {
//		name string
//		port numeric =0
//		targetPort @io.k8s.apimachinery.pkg.util.intstr.IntOrString
//
// A type is written as the forms that its values may have, without a space between them:
//
//	string numeric boolean untyped     a scalar
//	[associative,port,protocol:TYPE]   a list: its relationship, the keys of its elements if they have any
//	{atomic:TYPE}                      a map with elements; at the end of a line also {atomic or {, a map with fields
//	@NAME @NAME!separable              a named type, perhaps with another relationship than its own
//
// A field's default follows as JSON behind " =". A line that begins with | is a union: its discriminator, if it has one, and
// pairs of a field and the discriminator's value.
package mergeschema

import (
	_ "embed"
	"fmt"

	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

//go:generate go run ./generate

// Text is the generated file.
//
//go:embed schema.txt
var Text string

// Types reads the schema.
func Types() managedfields.TypeConverter {
	parser := &typed.Parser{}
	var err error
	if parser.Schema.Types, err = Read(Text); err != nil {
		panic(fmt.Sprintf("schema.txt: %v", err)) // it is a part of the program
	}
	return managedfields.NewSchemeTypeConverter(scheme.Scheme, parser)
}
