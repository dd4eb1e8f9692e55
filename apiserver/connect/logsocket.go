package connect

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Subprotocols of a log that is sent over a WebSocket: bytes as they are, in binary messages, or base64 in text messages.
const (
	binaryProtocol = "binary.k8s.io"
	base64Protocol = "base64.binary.k8s.io"
)

// socketStall is how long a client may take no byte of a log before its WebSocket is dropped.
const socketStall = time.Minute

// logSocket sends a log over a WebSocket, as browsers read it. An empty message comes first. A client that names only
// other subprotocols than these is refused; one that names none gets binary messages. Follows upstream's wsstream.Reader.
func logSocket(w http.ResponseWriter, req *http.Request, from io.ReadCloser) error {
	known := []string{binaryProtocol, base64Protocol}
	offered := websocket.Subprotocols(req)
	if len(offered) > 0 && !slices.ContainsFunc(offered, func(p string) bool { return slices.Contains(known, p) }) {
		return apierrors.NewBadRequest(fmt.Sprintf("unable to upgrade: requested protocol(s) are not supported: %v; supports %v", offered, known))
	}
	var refused error
	up := websocket.Upgrader{
		Subprotocols: known,
		// Client certificates and tokens decide, not where a page came from.
		CheckOrigin: func(*http.Request) bool { return true },
		Error: func(_ http.ResponseWriter, _ *http.Request, _ int, reason error) {
			refused = apierrors.NewBadRequest("unable to upgrade: " + reason.Error())
		},
	}
	conn, err := up.Upgrade(w, req, nil)
	if err != nil {
		return refused // nil: the connection has broken, and nobody is left to be told
	}
	// The client ends the log by closing the socket. What it sends is dropped.
	left := make(chan struct{})
	go func() {
		defer close(left)
		defer from.Close()
		conn.SetReadLimit(4 << 10)
		for {
			if _, _, err := conn.NextReader(); err != nil {
				return
			}
		}
	}()
	stop := context.AfterFunc(req.Context(), func() { _ = conn.Close() })
	defer stop()
	copyToSocket(conn, from)
	// The client may be gone; then there is nobody to say goodbye to.
	_ = conn.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(websocket.CloseNormalClosure, ""), time.Now().Add(time.Second))
	_ = conn.Close()
	<-left
	return nil
}

// copyToSocket sends what it reads, each piece as one message, until one side ends.
func copyToSocket(conn *websocket.Conn, from io.Reader) {
	typ, encode := websocket.BinaryMessage, func(p []byte) []byte { return p }
	if conn.Subprotocol() == base64Protocol {
		typ, encode = websocket.TextMessage, func(p []byte) []byte { return base64.StdEncoding.AppendEncode(nil, p) }
	}
	buf := make([]byte, leastChunk)
	for n, err := 0, error(nil); ; n, err = from.Read(buf) { // nothing has been read before the first, empty message
		if n > 0 || err == nil {
			if conn.SetWriteDeadline(time.Now().Add(socketStall)) != nil || conn.WriteMessage(typ, encode(buf[:n])) != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// isSocket says whether a request wants to become a WebSocket.
func isSocket(req *http.Request) bool {
	return strings.EqualFold(req.Header.Get("Upgrade"), "websocket")
}
