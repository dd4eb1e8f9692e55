// Command generate writes markers.json into the current directory.
package main

import (
	"fmt"
	"os"

	"vigil/apiserver/openapi/internal/markers/source"
)

func main() {
	text, err := source.Read()
	if err == nil {
		err = os.WriteFile("markers.json", text, 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
