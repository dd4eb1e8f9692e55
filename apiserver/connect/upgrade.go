package connect

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
)

// maxAnswer bounds the header of any answer, and all of one that refuses an upgrade, in bytes.
const maxAnswer = 1 << 20

// upgrading returns where and through what a connection is made that is to be upgraded. apimachinery's proxy reads from such connections itself: it waits for a handshake
// as long as the client does, and keeps a header, and a body that says why there is no upgrade, however long they are. Here the handshake is part of dialling and
// over after the transport's time for handshakes, and answers are cut. What leads over TLS is called http therefore, which nobody sees: the scheme is not part of a request.
func upgrading(location *url.URL, transport *http.Transport) (*url.URL, *http.Transport) {
	to := *location
	secure := to.Scheme == "https"
	if secure {
		to.Scheme = "http"
		if to.Port() == "" {
			to.Host = net.JoinHostPort(to.Hostname(), "443")
		}
	}
	return &to, &http.Transport{DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := transport.DialContext(ctx, network, address)
		if err != nil || !secure {
			return &headed{Conn: conn}, err
		}
		shaken, err := handshake(ctx, conn, address, transport)
		if err != nil {
			_ = conn.Close() // the error says what matters
			return nil, err
		}
		return &headed{Conn: shaken}, nil
	}}
}

// handshake speaks TLS as the transport would.
func handshake(ctx context.Context, conn net.Conn, address string, transport *http.Transport) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	config := transport.TLSClientConfig.Clone()
	if config.ServerName == "" {
		config.ServerName = host
	}
	ctx, cancel := context.WithTimeout(ctx, transport.TLSHandshakeTimeout)
	defer cancel()
	shaken := tls.Client(conn, config)
	if err := shaken.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS handshake with %s: %w", address, err)
	}
	return shaken, nil
}

var errLongAnswer = errors.New("the answer to the request for an upgrade is too long")

// switched begins an answer after which both sides may send what they like.
const switched = "HTTP/1.1 101"

// headed is a connection that begins with an answer to a request for an upgrade. It has one reader at a time.
type headed struct {
	net.Conn
	read  int  // of the answer, in bytes
	line  int  // of its last line, without a carriage return
	other bool // the answer does not begin with switched
	over  bool // it did, and its header has ended
}

// Read implements net.Conn.
func (h *headed) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	for i := 0; i < n && !h.over; i++ {
		if h.read < len(switched) && p[i] != switched[h.read] {
			h.other = true
		}
		switch p[i] {
		case '\n':
			h.over, h.line = h.line == 0 && !h.other, 0
		case '\r':
		default:
			h.line++
		}
		if h.read++; h.read > maxAnswer {
			return 0, errLongAnswer
		}
	}
	return n, err
}
