package connect

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"vigil/pki"
)

const (
	idleConnection = 90 * time.Second
	sweepPause     = 10 * idleConnection
)

// kind is what connections have in common. A node whose certificate is checked has its own: a connection is good for the node that it was made for, and addresses
// are what nodes say.
type kind struct {
	node string // "" where certificates are not checked
	own  bool   // it may be this machine
}

// connections are made with what the files held at one time.
type connections struct {
	pair      *tls.Certificate
	ca        *x509.CertPool
	transport *http.Transport
	used      time.Time
}

// transport is for requests to a kubelet. When the files have changed it is a new one, so that new requests show what is in them.
func (k *kubelets) transport(to kubelet, insecure bool) *http.Transport {
	var pair *tls.Certificate
	var ca *x509.CertPool
	which := kind{own: to.own}
	if k.pair != nil {
		pair = k.pair.Certificate()
	}
	if k.ca != nil && !insecure {
		ca, which.node = k.ca.Pool(), to.node
	}
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sweepLocked(now)
	have := k.transports[which]
	if have == nil || have.pair != pair || have.ca != ca {
		if have != nil {
			have.transport.CloseIdleConnections()
		}
		have = &connections{pair: pair, ca: ca, transport: k.newTransport(which, pair, ca)}
		k.transports[which] = have
	}
	have.used = now
	return have.transport
}

// sweepLocked forgets nodes that nobody has asked for long enough: none of their connections is idle any more, and those in use end by themselves.
func (k *kubelets) sweepLocked(now time.Time) {
	if now.Sub(k.swept) < sweepPause {
		return
	}
	k.swept = now
	for which, c := range k.transports {
		if now.Sub(c.used) > sweepPause {
			c.transport.CloseIdleConnections()
			delete(k.transports, which)
		}
	}
}

func (k *kubelets) newTransport(which kind, pair *tls.Certificate, ca *x509.CertPool) *http.Transport {
	conf := &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: ca, InsecureSkipVerify: ca == nil} //nolint:gosec // as configured
	if ca != nil {
		conf.VerifyConnection = func(state tls.ConnectionState) error { return isNodes(state.PeerCertificates, which.node) }
	}
	if pair != nil {
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return pair, nil }
	}
	return &http.Transport{
		DialContext:         k.guard(which.own).dialer(k.config.Timeout).DialContext,
		TLSClientConfig:     conf,
		TLSHandshakeTimeout: k.config.Timeout,
		IdleConnTimeout:     idleConnection,
		MaxIdleConnsPerHost: 25,
		DisableCompression:  true,

		MaxResponseHeaderBytes: maxAnswer,
	}
}

var errNoCertificate = errors.New("the kubelet shows no certificate")

// isNodes refuses a certificate that was signed for another node. Nodes say themselves which addresses they have, and a node may have got a certificate
// for an address before the node came that has it now; but its certificate names the user that asked for it, which is no word of its own
// (kubernetes.io/kubelet-serving). Certificates that others have signed name whom they like. Follows KEP-4872.
func isNodes(chain []*x509.Certificate, node string) error {
	if len(chain) == 0 {
		return errNoCertificate
	}
	subject, want := chain[0].Subject, pki.NodeSubject(node).CommonName
	ofANode := strings.HasPrefix(subject.CommonName, "system:node:") || slices.Contains(subject.Organization, "system:nodes")
	if ofANode && subject.CommonName != want {
		return fmt.Errorf("the kubelet of node %s shows a certificate of %q, want one of %q", node, subject.CommonName, want)
	}
	return nil
}
