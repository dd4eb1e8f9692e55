package node

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"vigil/internal/panics"
	"vigil/internal/serving"
)

// healthzRetry is how long a port that is taken is left alone.
const healthzRetry = 5 * time.Second

// serveHealth answers /healthz without TLS until ctx ends. A port that is taken costs only that: it is tried again, as upstream does.
func serveHealth(ctx context.Context, address string, port int, health http.Handler, log *slog.Logger) error {
	address = net.JoinHostPort(address, strconv.Itoa(port))
	for {
		listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil {
			server := &http.Server{Handler: panics.Serve(log, panics.KubeletRequest, health), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
			stop := context.AfterFunc(ctx, func() { server.Close() })
			err = server.Serve(listener)
			stop()
		} else {
			err = serving.Explain(address, err)
		}
		if ctx.Err() != nil {
			return nil
		}
		log.Warn("the kubelet cannot serve /healthz; it tries again: --healthz-port chooses another port, 0 none", "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(healthzRetry):
		}
	}
}
