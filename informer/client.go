package informer

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"vigil/informer/internal/wire"
)

// client sends GET requests to one API server.
type client struct {
	http *http.Client
	base *url.URL
}

// newClient makes a client that authenticates, verifies the server and reloads certificates as client-go does.
func newClient(cfg *rest.Config, compression bool) (*client, error) {
	cfg = rest.CopyConfig(cfg)
	cfg.Timeout = 0 // would end watches; each request has a deadline of its own
	cfg.DisableCompression = !compression
	if cfg.UserAgent == "" {
		cfg.UserAgent = rest.DefaultKubernetesUserAgent()
	}
	base, _, err := rest.DefaultServerUrlFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("API server address %q: %w", cfg.Host, err)
	}
	hc, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("client for API server %s: %w", cfg.Host, err)
	}
	return &client{http: hc, base: base}, nil
}

// maxStatus is how much of an error's body is read, in bytes.
const maxStatus = 64 << 10

// get sends a request and returns the body of a 200 and how the objects in it are encoded. Everything else is an error: a
// *apierrors.StatusError when the server answered. The caller closes the body.
func (c *client) get(ctx context.Context, path string, query url.Values, accept string) (io.ReadCloser, wire.Encoding, error) {
	u := *c.base
	u.Path = strings.TrimSuffix(u.Path, "/") + path
	u.RawQuery = query.Encode()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Accept", accept)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, 0, err
	}
	encoding := wire.JSON
	if strings.HasPrefix(resp.Header.Get("Content-Type"), mediaProto) {
		encoding = wire.Proto
	}
	if resp.StatusCode == http.StatusOK {
		return resp.Body, encoding, nil
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxStatus))
	if err != nil {
		return nil, 0, fmt.Errorf("read a %d response: %w", resp.StatusCode, err)
	}
	return nil, 0, statusError(resp.StatusCode, resp.Header.Get("Retry-After"), encoding, body, path)
}

// statusError makes an error of a response that is not 200.
func statusError(code int, retryAfter string, e wire.Encoding, body []byte, path string) error {
	seconds, _ := strconv.Atoi(retryAfter)
	status, ok := readStatus(e, body)
	if !ok {
		return apierrors.NewGenericServerResponse(code, "get", metav1.SchemeGroupVersion.WithResource("").GroupResource(), path, string(body), seconds, true)
	}
	if status.Code == 0 {
		status.Code = int32(code)
	}
	if seconds > 0 {
		if status.Details == nil {
			status.Details = &metav1.StatusDetails{}
		}
		if status.Details.RetryAfterSeconds == 0 {
			status.Details.RetryAfterSeconds = int32(seconds)
		}
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// readStatus decodes a Status in the form in which responses and ERROR events carry it.
func readStatus(e wire.Encoding, b []byte) (metav1.Status, bool) {
	var s metav1.Status
	if e == wire.JSON {
		return s, json.Unmarshal(b, &s) == nil && s.Kind == "Status"
	}
	t, message, err := wire.UnwrapTyped(b)
	if err != nil || t.Kind != "Status" {
		return s, false
	}
	return s, s.Unmarshal(message) == nil
}

// eventError makes an error of an ERROR event.
func eventError(e wire.Encoding, b []byte) error {
	status, ok := readStatus(e, b)
	if !ok {
		return fmt.Errorf("%w: an ERROR event without a Status", wire.ErrMalformed)
	}
	return &apierrors.StatusError{ErrStatus: status}
}
