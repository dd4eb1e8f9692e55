package main

import (
	"encoding/binary"
	"io"
	"net/http"
	"strconv"
)

// gRPC statuses (google.rpc.Code) that the health service answers with.
const (
	grpcOK              = 0
	grpcInvalidArgument = 3
	grpcNotFound        = 5
)

// grpcHealth is grpc.health.v1.Health/Check over plain HTTP/2, by hand: one message in, one out, the status in the trailers. It
// knows the services "" and "ready", which follow /readyz, and "live", which follows /healthz.
func (s *server) grpcHealth(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/grpc")
	finish := func(code int) { w.Header().Set(http.TrailerPrefix+"Grpc-Status", strconv.Itoa(code)) }
	service, ok := healthRequest(r.Body)
	if !ok {
		finish(grpcInvalidArgument)
		return
	}
	var serving bool
	switch service {
	case "", "ready":
		serving = s.ready.ok()
	case "live":
		serving = s.live.ok()
	default:
		finish(grpcNotFound)
		return
	}
	answer := []byte{0, 0, 0, 0, 2, 8, 2} // HealthCheckResponse{status: NOT_SERVING}
	if serving {
		answer[6] = 1 // SERVING
	}
	_, _ = w.Write(answer)
	finish(grpcOK)
}

// healthRequest reads a HealthCheckRequest: a byte that says it is not compressed, its length in four, and the message, which
// has one field, service = 1.
func healthRequest(body io.Reader) (service string, ok bool) {
	var head [5]byte
	if _, err := io.ReadFull(body, head[:]); err != nil || head[0] != 0 {
		return "", false
	}
	message := make([]byte, min(binary.BigEndian.Uint32(head[1:]), 256))
	if _, err := io.ReadFull(body, message); err != nil {
		return "", false
	}
	if len(message) == 0 {
		return "", true
	}
	if len(message) < 2 || message[0] != 1<<3|2 || int(message[1]) != len(message)-2 {
		return "", false
	}
	return string(message[2:]), true
}
