package cluster

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"vigil/cluster/serving"
	"vigil/internal/panics"
)

// HealthzPort is where a kubelet tells who asks on its own machine whether it is well.
const HealthzPort = 10248

// NodeServer says what a node with real containers serves and to whom.
type NodeServer struct {
	Off     bool   // --enable-server=false: no exec, logs, metrics ...
	Address string // --address; "": all of the machine's
	Port    int    // --port; 0: 10250

	HealthzAddress string // --healthz-bind-address; "": 127.0.0.1
	HealthzPort    int    // --healthz-port; 0: none

	// CertFile and KeyFile are what the server shows (--tls-cert-file, --tls-private-key-file). Without them a certificate is asked for, or, with SelfSigned
	// (--rotate-server-certificates=false), one is made that nobody else has signed.
	CertFile, KeyFile string
	SelfSigned        bool
	TLSMinVersion     uint16   // --tls-min-version; 0: TLS 1.2
	TLSCipherSuites   []uint16 // --tls-cipher-suites of TLS 1.2; nil: modern ones

	ClientCAFile string // --client-ca-file: who signs those who may come; "": the authority of the kubeconfig
	Anonymous    bool   // --anonymous-auth
	NoTokens     bool   // --authentication-token-webhook=false: only client certificates
	AllowAll     bool   // --authorization-mode=AlwaysAllow: who is known may do anything
}

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
