// Package h2 is the HTTP/2 server of the API port (RFC 9113, HPACK RFC 7541). It serves the same http.Handlers as net/http,
// which keeps the listener, the TLS handshake, HTTP/1.1 and the book of connections; h2 takes over a connection that has
// negotiated "h2" and is made for two things net/http's server is poor at: writing without handing frames from goroutine to
// goroutine, and streams that stay open for hours without a goroutine of their own.
//
//	server := &h2.Server{Handler: handler}
//	hs := &http.Server{Handler: handler, TLSConfig: config}
//	server.Configure(hs)
//	err := hs.ServeTLS(h2.NewListener(listener), "", "")
//
// # What is promised
//
// A handler sees what it would see behind net/http: Request with Body, Trailer, TLS, RemoteAddr and a Context that carries
// the values of BaseContext and ConnContext and ends with the stream; a ResponseWriter with Flush, 1xx responses, trailers
// and what http.ResponseController can ask for. Server push, extended CONNECT (RFC 8441) and priorities do not exist here:
// every stream gets the connection in the order its writers come.
//
// After [Detach] the handler returns and the response stays open as a [Stream]. TryWrite never waits: it takes what the
// flow-control windows and the socket's budget allow and says how much that was; OnWritable says when to try again. So a few
// delivery workers drive any number of streams, none of which can hold them up, and an idle stream costs its struct.
//
// What is not promised: a TryWrite that took n bytes has handed them to the connection, not to the client. When the
// connection breaks they are lost, as with every socket.
//
// [DetachChunked] does the same for a response over HTTP/1.1, which then has its connection for itself.
//
// # Goroutines
//
// One reads, for each connection: net/http's own, inside ServeConn; for a [Chunked] one of ours. One runs for each handler until it returns. While the
// kernel's send buffer of a connection is full, one drains what is pending for it. One for each Server, while it has
// connections, looks at them all every second: timeouts, keep-alive pings, idle connections. There are no others, and no
// timers but the deadlines that handlers set.
//
// # Locks
//
// conn.mu guards everything of a connection: its streams, windows, pending frames. Who has something to send takes it, counts
// the windows, builds frames, encrypts and writes them, and lets go; nothing is waited for while holding it, because a
// connection accepted by [NewListener] never blocks in Write: what the kernel does not take is kept (socket.pending) and
// drained by a goroutine. A stream whose connection has more than Server.MaxPending bytes there takes nothing more until it has
// drained. Any other connection (a test's pipe, a listener that was not wrapped) gets the same behaviour by way of a goroutine
// that does the blocking writes.
//
// Order: Server.relieving before Server.mu and conn.mu, which are never held together; conn.mu before socket.mu. Callbacks and cancellations run with no lock
// held.
//
// # Where to start reading
//
// conn.go reads frames and says what each means; request.go and response.go turn a stream into what a handler knows; out.go is
// all writing; stream.go is the life of a stream; detached.go the streams without goroutine; guard.go and sweep.go what keeps
// hostile and dead peers out; held.go bounds what clients make the server hold. attacks_test.go lists what hostile ones do.
package h2
