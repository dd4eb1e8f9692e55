// Package all is the list of every kind that the server serves. It is made from the packages of the groups: what returns
// a row there is served. To serve another kind, write its file and run go generate.
package all

import (
	"time"

	"vigil/kinds"
)

//go:generate go run ./internal/generate

// Options are what of the table is configurable. Each is called after the row and the parameter that takes it.
type Options struct {
	EventTTL time.Duration // how long events are kept; 0: an hour
}

// Table returns a new table of all kinds.
func Table() *kinds.Table { return TableWith(Options{}) }

// TableWith returns a new table of all kinds that is not all defaults.
func TableWith(o Options) *kinds.Table { return kinds.NewTable(rows(o)...) }
