// Command generate writes schema.txt into the current directory.
package main

import (
	"fmt"
	"os"

	"vigil/apiserver/write/internal/mergeschema/source"
)

func main() {
	types, err := source.Types()
	if err == nil {
		var text string
		if text, err = source.Write(types); err == nil {
			err = os.WriteFile("schema.txt", []byte(text), 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
