// Package serving says how the servers of a cluster's components listen and which certificates they show: what upstream calls the
// secure serving options, with the names of its flags.
package serving

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"vigil/pki"
)

// Config is what secure serving needs to know. The zero value shows a certificate that is made and held in memory.
type Config struct {
	TLSCertFile, TLSKeyFile string          // --tls-cert-file, --tls-private-key-file: both or none
	CertDir                 string          // --cert-dir, where the certificate is when these are not set; "": in memory
	TLSNamed                []pki.NamedPair // --tls-sni-cert-key
	TLSMinVersion           uint16          // --tls-min-version; 0: TLS 1.2
	TLSCipherSuites         []uint16        // --tls-cipher-suites of TLS 1.2; nil: those with forward secrecy and authenticated encryption
	TLSCurves               []tls.CurveID   // --tls-curve-preferences; nil: Go's
	NoHTTP2                 bool            // --disable-http2-serving
	MaxStreams              int             // --http2-max-streams-per-connection; 0: the server's own limit
	ReusePort               bool            // --permit-port-sharing
}

// Ensure names the files of the serving certificate: those of --cert-dir, made when nobody has put any there, where no others are given. pair is
// how files are called in that directory: "apiserver". Without files and directory it changes nothing.
func (c Config) Ensure(pair string, who pki.SelfSigned) (Config, error) {
	if (c.TLSCertFile == "") != (c.TLSKeyFile == "") {
		return c, errors.New("--tls-cert-file and --tls-private-key-file go together")
	}
	if c.TLSCertFile != "" || c.CertDir == "" {
		return c, nil
	}
	var err error
	c.TLSCertFile, c.TLSKeyFile, err = who.Ensure(c.CertDir, pair, time.Now())
	return c, err
}

// TLS is the configuration of a server that asks for client certificates and leaves it to others to check them. Without files it shows a
// certificate for who, made in memory and again in time.
func (c Config) TLS(who pki.SelfSigned, log *slog.Logger) (*tls.Config, error) {
	config := &tls.Config{
		MinVersion: c.TLSMinVersion, CipherSuites: c.TLSCipherSuites, CurvePreferences: c.TLSCurves,
		NextProtos: []string{"h2", "http/1.1"},
		ClientAuth: tls.RequestClientCert,
	}
	if config.MinVersion == 0 {
		config.MinVersion = tls.VersionTLS12
	}
	if len(config.CipherSuites) == 0 {
		config.CipherSuites = pki.CipherSuites()
	}
	if c.NoHTTP2 {
		config.NextProtos = []string{"http/1.1"}
	}
	if c.TLSCertFile == "" {
		config.GetCertificate = inMemory(who)
		if len(c.TLSNamed) > 0 {
			return nil, errors.New("--tls-sni-cert-key needs --tls-cert-file or --cert-dir, for clients that ask for no such name")
		}
		return config, nil
	}
	common, err := pki.NewKeyPair(c.TLSCertFile, c.TLSKeyFile, log)
	if err != nil {
		return nil, err
	}
	certificates, err := pki.NewCertificates(common, c.TLSNamed, log)
	if err != nil {
		return nil, fmt.Errorf("--tls-sni-cert-key: %w", err)
	}
	config.GetCertificate = certificates.GetCertificate
	return config, nil
}

// HTTP2 is what net/http's server is told of HTTP/2. Nil: its own defaults.
func (c Config) HTTP2() *http.HTTP2Config {
	if c.MaxStreams == 0 {
		return nil
	}
	return &http.HTTP2Config{MaxConcurrentStreams: c.MaxStreams}
}

// inMemory makes a certificate on first use, and another one in time before it ends.
func inMemory(who pki.SelfSigned) func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	var mu sync.Mutex
	var made *tls.Certificate
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		now := time.Now()
		if made != nil && now.Add(spare).Before(made.Leaf.NotAfter) {
			return made, nil
		}
		fresh, err := who.Make(now)
		if err == nil {
			made = fresh
		}
		return fresh, err
	}
}

// spare is how long before its end a certificate is made anew that nobody else has signed.
const spare = 30 * 24 * time.Hour

// Listen listens on a TCP address. Its error is one sentence.
func (c Config) Listen(ctx context.Context, address string) (net.Listener, error) {
	var config net.ListenConfig
	if c.ReusePort {
		config.Control = reusePort
	}
	listener, err := config.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, Explain(address, err)
	}
	return listener, nil
}

// Explain says in one sentence why an address cannot be listened on.
func Explain(address string, err error) error {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("cannot listen on %s: %w (is another cluster running? choose another port, or stop it)", address, err)
	}
	return fmt.Errorf("cannot listen on %s: %w", address, err)
}
