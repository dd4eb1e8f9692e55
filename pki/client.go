package pki

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// ClientConfig reads a kubeconfig for a client that lives longer than its certificate. When the kubeconfig or the files it names
// change, requests that begin from then on go over new connections that show the new certificate; those under way end on the
// connections they have. (client-go itself never reads inline certificates again, and cuts connections off when files change.)
// Nothing is compressed on the way. A kubeconfig without a client certificate gets client-go's own treatment. log hears of
// changes, and may be nil.
func ClientConfig(kubeconfig string, log *slog.Logger) (*rest.Config, error) {
	return clientConfig(kubeconfig, log, &reloading{kubeconfig: kubeconfig})
}

// AnonymousConfig is [ClientConfig] for a client that shows no certificate: one that says otherwise who it is.
func AnonymousConfig(kubeconfig string, log *slog.Logger) (*rest.Config, error) {
	config, err := clientConfig(kubeconfig, log, &reloading{kubeconfig: kubeconfig, anonymous: true})
	if err != nil {
		return nil, err
	}
	transport := config.Transport
	config = rest.AnonymousClientConfig(config)
	config.Transport = transport
	return config, nil
}

func clientConfig(kubeconfig string, log *slog.Logger, r *reloading) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	if config.CertFile == "" && len(config.CertData) == 0 || config.ExecProvider != nil || config.AuthProvider != nil {
		return config, nil
	}
	files := []string{kubeconfig}
	for _, name := range []string{config.CertFile, config.KeyFile, config.CAFile} {
		if name != "" {
			files = append(files, name)
		}
	}
	if r.files, err = watch(log, r.load, files...); err != nil {
		return nil, fmt.Errorf("kubeconfig %s: %w", kubeconfig, err)
	}
	config.TLSClientConfig = rest.TLSClientConfig{}
	config.Transport = r
	return config, nil
}

// reloading is a transport that follows a kubeconfig.
type reloading struct {
	kubeconfig string
	anonymous  bool // no certificate is shown
	files      *watched
	now        atomic.Pointer[credentials]
}

// credentials are what a kubeconfig holds at one time, by its digest, and the connections made with them.
type credentials struct {
	digest    [sha256.Size]byte
	transport *http.Transport

	connected atomic.Bool   // there is a connection, as far as the last request knows
	opening   chan struct{} // holds a token while a request goes ahead to open one
}

// RoundTrip is an http.RoundTripper's.
func (r *reloading) RoundTrip(req *http.Request) (*http.Response, error) {
	r.files.look()
	return r.now.Load().roundTrip(req)
}

// roundTrip lets one request go ahead where there is no connection, and the others wait until it is on its way. An http.Transport
// opens a connection for each request that finds none, and uses one of them: a client that begins with several requests would pay for as many
// handshakes.
func (c *credentials) roundTrip(req *http.Request) (*http.Response, error) {
	if !c.connected.Load() {
		select {
		case c.opening <- struct{}{}:
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		}
		goOn := sync.OnceFunc(func() { <-c.opening })
		defer goOn()
		if c.connected.Load() {
			goOn()
		} else {
			req = req.WithContext(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{WroteRequest: func(info httptrace.WroteRequestInfo) {
				if info.Err == nil {
					c.connected.Store(true)
					goOn()
				}
			}}))
		}
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil && req.Context().Err() == nil {
		c.connected.Store(false)
	}
	return resp, err
}

// CloseIdleConnections is what an http.Client looks for.
func (r *reloading) CloseIdleConnections() { r.now.Load().transport.CloseIdleConnections() }

// TLSClientConfig is a utilnet.TLSClientConfigHolder's, for clients that dial themselves.
func (r *reloading) TLSClientConfig() *tls.Config {
	r.files.look()
	return r.now.Load().transport.TLSClientConfig
}

func (r *reloading) load() error {
	config, err := clientcmd.BuildConfigFromFlags("", r.kubeconfig)
	if err != nil {
		return err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return err
	}
	digest := sha256.Sum256(bytes.Join([][]byte{config.CertData, config.KeyData, config.CAData}, []byte{0}))
	old := r.now.Load()
	if old != nil && old.digest == digest {
		return nil
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return err
	}
	pair.Leaf = nil // a process may have thousands of clients, and what a handshake asks of a leaf is quickly read again
	conf := &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: config.ServerName, InsecureSkipVerify: config.Insecure,
	}
	if !r.anonymous {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
	}
	if len(config.CAData) > 0 {
		if conf.RootCAs, err = sharedPool(config.CAData); err != nil {
			return err
		}
	}
	r.now.Store(&credentials{digest: digest, opening: make(chan struct{}, 1), transport: utilnet.SetTransportDefaults(&http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DialContext:         gatherDialer(&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}),
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: 10 * time.Second,
		IdleConnTimeout:     90 * time.Second,
		MaxIdleConnsPerHost: 25,
		DisableCompression:  true,
	})})
	if old != nil {
		old.transport.CloseIdleConnections() // those in use follow when they have been idle for long enough
	}
	return nil
}
