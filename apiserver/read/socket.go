package read

import (
	"net/http"
	"time"

	"github.com/gorilla/websocket"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/apiserver/negotiate"
)

// socket sends one event in each WebSocket message: text for JSON, binary for protobuf (without the length that frames
// the event in a plain stream).
type socket struct {
	conn   *websocket.Conn
	typ    int
	prefix int           // bytes of framing to leave out
	left   chan struct{} // closed when the client has closed its side
}

// stall is how long a WebSocket client may take no byte before it is dropped.
const stall = time.Minute

func newSocket(w http.ResponseWriter, req *http.Request, form negotiate.Result) (sink, error) {
	var refused error
	up := websocket.Upgrader{
		Subprotocols: firstProtocol(req),
		// Client certificates and tokens decide, not where a page came from.
		CheckOrigin: func(*http.Request) bool { return true },
		Error: func(_ http.ResponseWriter, _ *http.Request, _ int, reason error) {
			refused = apierrors.NewBadRequest("unable to upgrade: " + reason.Error())
		},
	}
	conn, err := up.Upgrade(w, req, nil)
	if err != nil {
		if refused != nil {
			return nil, refused
		}
		return nil, err
	}
	s := &socket{conn: conn, typ: websocket.TextMessage, left: make(chan struct{})}
	if form.Format == negotiate.Protobuf {
		s.typ, s.prefix = websocket.BinaryMessage, 4
	}
	go s.read()
	return s, nil
}

// firstProtocol is the first subprotocol that the client offers, as a list of one; authentication has taken out the one that carries a
// token. A browser fails the connection when the answer selects none. What is sent is the same whatever the name, as upstream.
func firstProtocol(req *http.Request) []string {
	offered := websocket.Subprotocols(req)
	return offered[:min(len(offered), 1)]
}

// read drops what the client sends, answers pings and notices the end. It ends with the connection, which close closes.
func (s *socket) read() {
	defer close(s.left)
	s.conn.SetReadLimit(4 << 10)
	for {
		if _, _, err := s.conn.NextReader(); err != nil {
			return
		}
	}
}

func (*socket) begin() {}

func (s *socket) send(frame []byte) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(stall)); err != nil {
		return err
	}
	return s.conn.WriteMessage(s.typ, frame[s.prefix:])
}

func (*socket) single() bool { return true }

func (s *socket) gone() <-chan struct{} { return s.left }

// expired does nothing: a client that takes nothing is dropped after stall anyway.
func (*socket) expired() {}

func (s *socket) close() {
	bye := websocket.FormatCloseMessage(websocket.CloseNormalClosure, "")
	// The client may be gone; then there is nobody to say goodbye to.
	_ = s.conn.WriteControl(websocket.CloseMessage, bye, time.Now().Add(time.Second))
	_ = s.conn.Close()
	<-s.left
}
