package h2

import "net/http"

// Patient lets writes to w wait for their client as long as it likes: Server.WriteTimeout does not end its stream while the connection
// as such is alive. It is for streams that people look at, and stop looking at (a log in a pager). It does nothing to a w that is not, and does
// not wrap, one of this package's.
func Patient(w http.ResponseWriter) {
	for {
		switch t := w.(type) {
		case *responseWriter:
			t.st.c.mu.Lock()
			t.st.patient = true
			t.st.c.mu.Unlock()
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = t.Unwrap()
		default:
			return
		}
	}
}
