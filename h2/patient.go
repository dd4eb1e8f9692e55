package h2

import "net/http"

// Patient lets writes to w, which answers r, wait for their client as long as it likes: Server.WriteTimeout does not end its stream while the
// connection as such is alive, nor its connection with HTTP/1.1. It is for streams that people look at, and stop looking at (a log in a pager). It
// does nothing to a w that is not, and does not wrap, one of this package's, or of an http.Server that a Server has configured.
func Patient(w http.ResponseWriter, r *http.Request) {
	if a, ok := r.Context().Value(acceptedKey{}).(*accepted); ok && r.ProtoMajor == 1 {
		if sock := socketOf(a.conn); sock != nil {
			sock.patience.Store(0)
		}
		return
	}
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
