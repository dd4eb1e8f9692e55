package read

import (
	"io"

	"vigil/apiserver/respond"
	"vigil/apiserver/table"
	"vigil/object"
)

// flushRows is the size in bytes at which rows are handed on.
const flushRows = 32 << 10

// tableBody writes a list as a table, row by row.
type tableBody struct {
	printer *table.Printer
	meta    object.ListMeta
}

func (t *tableBody) Write(w io.Writer, items []*object.Version) error {
	buf := respond.Buffer()
	defer respond.Release(buf)
	var err error
	if *buf, err = t.printer.AppendHeader(*buf, t.meta, true); err != nil {
		return err
	}
	for i, v := range items {
		if i > 0 {
			*buf = append(*buf, ',')
		}
		if *buf, err = t.printer.AppendRow(*buf, v); err != nil {
			return err
		}
		if len(*buf) >= flushRows {
			if _, err := w.Write(*buf); err != nil {
				return err
			}
			*buf = (*buf)[:0]
		}
	}
	*buf = append(table.AppendFooter(*buf), '\n')
	_, err = w.Write(*buf)
	return err
}
