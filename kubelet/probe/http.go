package probe

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// request makes the request of an httpGet. purpose is how the client calls itself: kube-PURPOSE/1.37.
func (c *Client) request(ctx context.Context, action *corev1.HTTPGetAction, target Target, purpose string) (*http.Request, error) {
	port, err := Port(action.Port, target.Container)
	if err != nil {
		return nil, err
	}
	where, err := url.Parse(action.Path)
	if err != nil {
		where = &url.URL{Path: action.Path} // it was admitted, and is asked for as it is
	}
	where.Scheme = "http"
	if action.Scheme != "" {
		where.Scheme = strings.ToLower(string(action.Scheme))
	}
	host := action.Host
	if host == "" {
		host = target.PodIP
	}
	where.Host = net.JoinHostPort(host, strconv.Itoa(port))
	header := http.Header{}
	for _, h := range action.HTTPHeaders {
		header.Add(h.Name, h.Value)
	}
	if _, given := header["User-Agent"]; !given {
		header["User-Agent"] = []string{"kube-" + purpose + "/" + c.version}
	}
	if accept, given := header["Accept"]; !given {
		header["Accept"] = []string{"*/*"}
	} else if accept[0] == "" {
		delete(header, "Accept")
	}
	request := &http.Request{
		Method: http.MethodGet, URL: where, Host: header.Get("Host"), Header: header, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Close: true,
	}
	return request.WithContext(ctx), nil
}

// sameHost follows redirects on the host that was asked; elsewhere could be anything that the node can reach.
func sameHost(request *http.Request, via []*http.Request) error {
	if request.URL.Hostname() != via[0].URL.Hostname() {
		return http.ErrUseLastResponse
	}
	if len(via) >= 10 {
		return errors.New("stopped after 10 redirects")
	}
	return nil
}

// headerLimit is how large the headers of an answer may be, in bytes. net/http, and with it upstream, takes 10 MiB, which a probe holds several times.
const headerLimit = 64 << 10

// transport sends each request over a connection of its own: HTTP/1.1, with TLS whoever the server says it is. Unlike
// http.Transport it starts no goroutines, knows no proxies and keeps nothing.
type transport struct {
	dialer *net.Dialer
	tls    *tls.Config
}

// readers are reused: a probe reads little.
var readers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, 1024) }}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	ctx := request.Context()
	conn, err := t.dialer.DialContext(ctx, "tcp", request.URL.Host)
	if err != nil {
		return nil, orContext(ctx, err)
	}
	// The deadline of the context is that of the connection; its end alone closes it.
	if deadline, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	response, err := t.exchange(conn, request)
	if err != nil {
		stop()
		_ = conn.Close()
		return nil, orContext(ctx, err)
	}
	response.Body.(*body).stop = stop
	return response, nil
}

func (t *transport) exchange(conn net.Conn, request *http.Request) (*http.Response, error) {
	if request.URL.Scheme == "https" {
		config := t.tls.Clone()
		config.ServerName = request.URL.Hostname()
		secure := tls.Client(conn, config)
		if err := secure.Handshake(); err != nil {
			return nil, err
		}
		conn = secure
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	head := &bounded{from: conn, left: headerLimit}
	reader := readers.Get().(*bufio.Reader)
	reader.Reset(head)
	response, err := http.ReadResponse(reader, request)
	for informal := 0; err == nil && response.StatusCode < http.StatusOK && response.StatusCode != http.StatusSwitchingProtocols; informal++ {
		if informal == 5 {
			return nil, errors.New("too many 1xx informational responses")
		}
		response, err = http.ReadResponse(reader, request)
	}
	if err != nil {
		return nil, err
	}
	head.left = math.MaxInt // of the body no more is read than is shown, and of its trailers no more than a buffer holds
	response.Body = &body{ReadCloser: response.Body, conn: conn, reader: reader}
	return response, nil
}

// bounded reads the status lines and headers of an answer, also of informational ones, as long as they are not too large.
type bounded struct {
	from io.Reader
	left int // bytes
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, fmt.Errorf("net/http: server response headers exceeded %d bytes; aborted", headerLimit)
	}
	n, err := b.from.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// orContext says that it was the context that ended, if it was.
func orContext(ctx context.Context, err error) error {
	var timeout net.Error
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.As(err, &timeout) && timeout.Timeout():
		if _, ok := ctx.Deadline(); ok {
			return context.DeadlineExceeded // the connection has noticed first
		}
	}
	return err
}

// body closes the connection with the body.
type body struct {
	io.ReadCloser
	conn   net.Conn
	reader *bufio.Reader // nil once closed
	stop   func() bool
}

func (b *body) Close() error {
	if b.reader == nil {
		return nil
	}
	b.stop()
	err := b.conn.Close()
	b.reader.Reset(nil)
	readers.Put(b.reader)
	b.reader = nil
	return err
}

// readSome reads the beginning of an answer.
func readSome(from io.Reader) (string, error) {
	read, err := io.ReadAll(io.LimitReader(from, outputLimit))
	return string(read), err
}
