package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"vigil/pki"
)

// Ports on which components serve health and metrics, as upstream's.
const (
	ControllerManagerPort = 10257
	SchedulerPort         = 10259
)

// componentServer serves /healthz, /livez, /readyz and /metrics of a controller manager or scheduler over TLS. Health
// is for everybody, metrics for clients with a certificate of ClientCA in group system:masters or system:monitoring.
type componentServer struct {
	Bind     string // address to listen on; "" is 127.0.0.1
	Port     int    // 0 serves nothing
	CertFile string // serving certificate; when empty one is made, and again before it ends
	KeyFile  string
	ClientCA *pki.Bundle // nil: nobody may read metrics
	Registry *prometheus.Registry
	Healthy  func() error // nil: always
	Logger   *slog.Logger
}

// Run serves until ctx ends.
func (s componentServer) Run(ctx context.Context) error {
	if s.Port == 0 {
		<-ctx.Done()
		return nil
	}
	if s.Bind == "" {
		s.Bind = "127.0.0.1"
	}
	certificate, err := s.certificate()
	if err != nil {
		return err
	}
	if _, err := certificate(nil); err != nil {
		return err
	}
	address := net.JoinHostPort(s.Bind, strconv.Itoa(s.Port))
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return explainListen(address, err)
	}
	server := &http.Server{
		Handler:           s.handler(),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       90 * time.Second,
		ErrorLog:          slog.NewLogLogger(s.Logger.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{
			MinVersion:     tls.VersionTLS12,
			GetCertificate: certificate,
			ClientAuth:     tls.RequestClientCert, // checked by whom it concerns
		},
	}
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		<-ctx.Done()
		server.Close()
	}()
	err = server.ServeTLS(listener, "", "")
	<-stopped
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

func (s componentServer) handler() http.Handler {
	mux := http.NewServeMux()
	health := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		if s.Healthy != nil {
			if err := s.Healthy(); err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
		}
		io.WriteString(w, "ok")
	}
	mux.HandleFunc("GET /healthz", health)
	mux.HandleFunc("GET /livez", health)
	mux.HandleFunc("GET /readyz", health)
	metrics := promhttp.HandlerFor(s.Registry, promhttp.HandlerOpts{})
	mux.HandleFunc("GET /metrics", func(w http.ResponseWriter, r *http.Request) {
		groups, ok := s.groups(r.TLS)
		if !ok {
			http.Error(w, "Unauthorized", http.StatusUnauthorized)
			return
		}
		if !slices.Contains(groups, "system:masters") && !slices.Contains(groups, "system:monitoring") {
			http.Error(w, "Forbidden", http.StatusForbidden)
			return
		}
		metrics.ServeHTTP(w, r)
	})
	return mux
}

// groups are those of a client certificate that ClientCA has signed.
func (s componentServer) groups(state *tls.ConnectionState) ([]string, bool) {
	if len(state.PeerCertificates) == 0 || s.ClientCA == nil {
		return nil, false
	}
	leaf, intermediates := state.PeerCertificates[0], x509.NewCertPool()
	for _, cert := range state.PeerCertificates[1:] {
		intermediates.AddCert(cert)
	}
	_, err := leaf.Verify(x509.VerifyOptions{
		Roots: s.ClientCA.Pool(), Intermediates: intermediates, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return leaf.Subject.Organization, err == nil
}

// certificate returns a tls.Config's GetCertificate.
func (s componentServer) certificate() (func(*tls.ClientHelloInfo) (*tls.Certificate, error), error) {
	if s.CertFile != "" {
		pair, err := pki.NewKeyPair(s.CertFile, s.KeyFile, s.Logger)
		if err != nil {
			return nil, err
		}
		return pair.GetCertificate, nil
	}
	var mu sync.Mutex
	var made *tls.Certificate
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if made != nil && now.Add(selfSignedSpare).Before(made.Leaf.NotAfter) {
			return made, nil
		}
		fresh, err := selfSigned(now)
		if err == nil {
			made = fresh
		}
		return fresh, err
	}, nil
}

// selfSignedSpare is how long before its end a certificate is made anew that nobody else has signed.
const selfSignedSpare = 30 * 24 * time.Hour

func selfSigned(now time.Time) (*tls.Certificate, error) {
	ca, err := pki.NewAuthority("vigil-component", now)
	if err != nil {
		return nil, err
	}
	pair, err := ca.Issue(pki.Subject{CommonName: "localhost", DNSNames: []string{"localhost"}, IPs: []net.IP{net.IPv4(127, 0, 0, 1)}, Server: true}, now)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{pair.Cert.Raw, ca.Cert.Raw}, PrivateKey: pair.Key, Leaf: pair.Cert}, nil
}

// explainListen says in one sentence why an address cannot be listened on.
func explainListen(address string, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("cannot listen on %s: %w (is another cluster running? choose another port, or stop it)", address, err)
	}
	return fmt.Errorf("cannot listen on %s: %w", address, err)
}
