package certificates

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// serverNames are the names and addresses under which API servers are reached: those that the certificate is good for that the server shows.
// A balancer in front of API servers is in no object of the cluster, but its name is in there, or clients would not believe them.
type serverNames struct {
	server *rest.Config

	mu   sync.Mutex
	cert *x509.Certificate
	seen time.Time // when the server showed it
}

// namesAge is how long the certificate is believed to be what the server shows.
const namesAge = time.Minute

// has says whether a name or address is one of an API server's.
func (n *serverNames) has(ctx context.Context, names ...string) (which string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.cert == nil || time.Since(n.seen) > namesAge {
		if n.cert, err = n.shown(ctx); err != nil {
			return "", fmt.Errorf("look at the certificate of the API server: %w", err)
		}
		n.seen = time.Now()
	}
	for _, name := range names {
		if n.cert.VerifyHostname(name) == nil {
			return name, nil
		}
	}
	return "", nil
}

// shown returns the certificate of whoever answers; what the answer is does not matter.
func (n *serverNames) shown(ctx context.Context) (*x509.Certificate, error) {
	client, err := rest.HTTPClientFor(n.server)
	if err != nil {
		return nil, err
	}
	address, _, err := rest.DefaultServerUrlFor(n.server)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.JoinPath("version").String(), nil)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.TLS == nil {
		return nil, errors.New("it shows none")
	}
	return response.TLS.PeerCertificates[0], nil
}
