package connect

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/kinds/podoptions"
)

// log sends what a container has printed, as the kubelet sends it.
func (c *Connector) log(w http.ResponseWriter, req *http.Request, r *Request) error {
	opts, err := podoptions.Log(req.URL.Query())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if errs := podoptions.ValidateLog(opts); len(errs) > 0 {
		return apierrors.NewInvalid(schema.GroupKind{Kind: "PodLogOptions"}, r.Name, errs)
	}
	pod, err := c.pod(req.Context(), r, r.Name)
	if err != nil {
		return err
	}
	container, err := chooseContainer(pod, opts.Container)
	if err != nil {
		return err
	}
	if pod.Spec.NodeName == "" { // nothing has been printed
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	location, k, err := c.location(req.Context(), pod, "containerLogs", "/"+container, logQuery(opts))
	if err != nil {
		return err
	}
	toKubelet, err := http.NewRequestWithContext(req.Context(), http.MethodGet, location.String(), nil)
	if err != nil {
		return err
	}
	client := http.Client{
		Transport:     c.kubelets.transport(k, opts.InsecureSkipTLSVerifyBackend),
		CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("redirects forbidden") },
	}
	response, err := client.Do(toKubelet)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if err := refused(response, r.Name); err != nil {
		return err
	}
	if isSocket(req) {
		return logSocket(w, req, response.Body)
	}
	w.Header().Set("Content-Type", "text/plain")
	w.WriteHeader(http.StatusOK)
	flush(w, response.Body)
	return nil
}

func logQuery(opts *corev1.PodLogOptions) url.Values {
	query := url.Values{"stream": {*opts.Stream}}
	for name, set := range map[string]bool{"follow": opts.Follow, "previous": opts.Previous, "timestamps": opts.Timestamps} {
		if set {
			query.Set(name, "true")
		}
	}
	for name, n := range map[string]*int64{"sinceSeconds": opts.SinceSeconds, "tailLines": opts.TailLines, "limitBytes": opts.LimitBytes} {
		if n != nil {
			query.Set(name, strconv.FormatInt(*n, 10))
		}
	}
	if opts.SinceTime != nil {
		query.Set("sinceTime", opts.SinceTime.Format(time.RFC3339))
	}
	return query
}

// maxRefusal bounds how much of a kubelet's error is read, in bytes.
const maxRefusal = 50_000

// refused is a kubelet's answer as a Status, nil when it is what was asked for.
func refused(response *http.Response, name string) error {
	if response.StatusCode >= http.StatusOK && response.StatusCode <= http.StatusPartialContent {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRefusal))
	switch {
	case err != nil:
		return apierrors.NewInternalError(err)
	case response.StatusCode == http.StatusInternalServerError:
		return apierrors.NewInternalError(fmt.Errorf("%s", body))
	case response.StatusCode == http.StatusBadRequest:
		return apierrors.NewBadRequest(string(body))
	}
	return apierrors.NewGenericServerResponse(response.StatusCode, "", schema.GroupResource{Resource: "pods/log"}, name, string(body), 0, false)
}

// Sizes of what is passed on at once, in bytes: little is enough for those who follow a log, much for those who read one.
const (
	leastChunk = 4 << 10
	mostChunk  = 64 << 10
)

// flush copies, and sends what has arrived at once.
func flush(w http.ResponseWriter, from io.Reader) {
	control := http.NewResponseController(w)
	_ = control.Flush() // an error is the client's: the copy below ends by it
	buf := make([]byte, leastChunk)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			if _, err := w.Write(buf[:n]); err != nil {
				return
			}
			if err := control.Flush(); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
		if n == len(buf) && n < mostChunk {
			buf = make([]byte, 2*n)
		}
	}
}
