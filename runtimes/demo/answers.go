package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"
)

// text answers with a line.
func text(value func(*http.Request) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, err := value(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		fmt.Fprintln(w, v)
	}
}

// runs answers with what a command prints, whose arguments are parameters of the query.
func runs(name string, parameters ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if name == "env" && r.FormValue("name") != "" {
			fmt.Fprintln(w, os.Getenv(r.FormValue("name")))
			return
		}
		args := []string{name}
		for _, p := range parameters {
			args = append(args, r.FormValue(p))
		}
		var out, errOut bytes.Buffer
		if code := command(args, bytes.NewReader(nil), &out, &errOut); code != 0 {
			http.Error(w, out.String()+errOut.String(), http.StatusInternalServerError)
			return
		}
		_, _ = w.Write(out.Bytes())
	}
}

// headers shows the request as it came.
func headers(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %s %s\nHost: %s\nFrom: %s\n", r.Method, r.RequestURI, r.Proto, r.Host, r.RemoteAddr)
	_ = r.Header.Write(w)
}

// stream sends n lines, one each interval, until the client leaves.
func stream(w http.ResponseWriter, r *http.Request) {
	n, _ := strconv.Atoi(r.FormValue("n"))
	every, err := seconds(r.FormValue("every"))
	if err != nil {
		every = time.Second
	}
	control := http.NewResponseController(w)
	for i := range max(n, 1) {
		if i > 0 {
			select {
			case <-r.Context().Done():
				return
			case <-time.After(every):
			}
		}
		fmt.Fprintln(w, "line", i+1)
		_ = control.Flush()
	}
}

func status(w http.ResponseWriter, r *http.Request) {
	code, err := strconv.Atoi(r.FormValue("code"))
	if err != nil || code < 100 || code > 599 {
		code = http.StatusBadRequest
	}
	w.WriteHeader(code)
	_, _ = io.WriteString(w, http.StatusText(code)+"\n")
}

func delay(w http.ResponseWriter, r *http.Request) {
	d, err := seconds(r.FormValue("for"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	select {
	case <-time.After(d):
		fmt.Fprintln(w, "waited", d)
	case <-r.Context().Done():
	}
}
