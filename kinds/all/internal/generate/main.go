// Command generate writes rows.go into the current directory, which is kinds/all.
package main

import (
	"fmt"
	"os"

	"vigil/kinds/all/internal/source"
)

func main() {
	text, err := source.Rows("..")
	if err == nil {
		err = os.WriteFile("rows.go", text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
