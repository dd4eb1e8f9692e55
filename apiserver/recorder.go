package apiserver

import "net/http"

// recorder notes the status of a response. Handlers reach the connection's other abilities (flush, deadlines, hijack)
// through http.ResponseController, which unwraps it.
type recorder struct {
	http.ResponseWriter
	code int           // 0 until the header has been written
	copy *responseCopy // for the audit; nil when nobody wants one

	begun func() // called when the header is written; nil when nobody wants to know
}

func (r *recorder) WriteHeader(code int) {
	if r.code == 0 && code >= 200 {
		r.note(code)
	}
	r.ResponseWriter.WriteHeader(code)
}

// note tells those concerned what the response begins with.
func (r *recorder) note(code int) {
	r.code = code
	if r.begun != nil {
		r.begun()
	}
	if r.copy != nil {
		r.copy.begin(code)
	}
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.code == 0 {
		r.note(http.StatusOK)
	}
	if r.copy != nil {
		r.copy.write(p)
	}
	return r.ResponseWriter.Write(p)
}

// Unwrap is what http.ResponseController looks for.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }
