package componentserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"vigil/apiserver/authn"
	"vigil/pki"
)

const (
	// lookEvery is how long authorities that were looked up are good for. They are looked up when a request comes, not in between.
	lookEvery = 30 * time.Second
	// lookFor bounds one lookup.
	lookFor = 10 * time.Second

	published = "extension-apiserver-authentication" // the ConfigMap in kube-system
)

// callers finds out who is calling.
type callers struct {
	access Access
	client kubernetes.Interface // nil: neither tokens nor authorities are asked for
	tokens []authn.Token
	log    *slog.Logger

	mu      sync.Mutex // held during a lookup, so that there is one at a time
	chain   *authn.Chain
	looked  time.Time // when authorities were looked up; zero: they never are
	version string    // of what was found
}

func newCallers(ctx context.Context, access Access, log *slog.Logger) (*callers, error) {
	c := &callers{access: access, log: log}
	if access.AuthenticationKubeconfig == "" {
		return c, c.set(authn.Config{ClientCAFile: access.ClientCAFile, Proxy: access.Proxy})
	}
	var err error
	if c.client, err = clientOf(access.AuthenticationKubeconfig, log); err != nil {
		return nil, fmt.Errorf("--authentication-kubeconfig: %w", err)
	}
	c.tokens = []authn.Token{newTokenReviewer(c.client, access.TokenTTL)}
	if !c.looksUp() {
		return c, c.set(authn.Config{ClientCAFile: access.ClientCAFile, Proxy: access.Proxy})
	}
	if err := c.look(ctx); err != nil {
		if !access.TolerateLookupFailure {
			return nil, fmt.Errorf("look up the authorities of clients: %w (--authentication-tolerate-lookup-failure goes on without them)", err)
		}
		log.Warn("the component cannot look up the authorities of clients; it knows no client certificates until it can", "error", err)
		return c, c.set(authn.Config{ClientCAFile: access.ClientCAFile, Proxy: access.Proxy})
	}
	return c, nil
}

// looksUp says whether something is missing that the cluster publishes.
func (c *callers) looksUp() bool {
	return !c.access.SkipLookup && (c.access.ClientCAFile == "" || c.access.Proxy.CAFile == "")
}

func (c *callers) set(config authn.Config) error {
	config.Tokens, config.Log = c.tokens, c.log
	chain, err := authn.New(config)
	if err == nil {
		c.chain = chain
	}
	return err
}

// authenticate says who sent a request.
func (c *callers) authenticate(r *http.Request) (*authn.User, error) {
	connection, ok := r.Context().Value(connectionKey{}).(*authn.Connection)
	if !ok {
		connection = new(authn.Connection)
	}
	return c.current(r.Context()).Authenticate(r, connection, time.Now())
}

// current is the chain with the authorities that the cluster has now.
func (c *callers) current(ctx context.Context) *authn.Chain {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil && c.looksUp() && time.Since(c.looked) > lookEvery {
		if err := c.look(ctx); err != nil {
			c.log.Warn("the component cannot look up the authorities of clients again; those it knows stay in use", "error", err)
			c.looked = time.Now()
		}
	}
	return c.chain
}

// look reads what the cluster publishes. What is given by flags goes before it.
func (c *callers) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	object, err := c.client.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(ctx, published, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read ConfigMap kube-system/%s: %w", published, err)
	}
	c.looked = time.Now()
	if c.version == object.ResourceVersion {
		return nil
	}
	config := authn.Config{ClientCAFile: c.access.ClientCAFile, Proxy: c.access.Proxy}
	if pem := object.Data["client-ca-file"]; config.ClientCAFile == "" && pem != "" {
		if config.ClientCA, err = pki.BundleOf([]byte(pem)); err != nil {
			return fmt.Errorf("client-ca-file of ConfigMap kube-system/%s: %w", published, err)
		}
	}
	if pem := object.Data["requestheader-client-ca-file"]; config.Proxy.CAFile == "" && pem != "" {
		if config.Proxy, err = proxyOf(object.Data); err == nil {
			config.ProxyCA, err = pki.BundleOf([]byte(pem))
		}
		if err != nil {
			return fmt.Errorf("requestheader-client-ca-file of ConfigMap kube-system/%s: %w", published, err)
		}
	}
	if err := c.set(config); err != nil {
		return err
	}
	c.version = object.ResourceVersion
	return nil
}

// proxyOf reads the headers of front proxies from a ConfigMap.
func proxyOf(data map[string]string) (authn.Proxy, error) {
	var p authn.Proxy
	var errs []error
	for key, list := range map[string]*[]string{
		"allowed-names": &p.AllowedNames, "username-headers": &p.UsernameHeaders, "uid-headers": &p.UIDHeaders,
		"group-headers": &p.GroupHeaders, "extra-headers-prefix": &p.ExtraPrefixes,
	} {
		if text := data["requestheader-"+key]; text != "" {
			if err := json.Unmarshal([]byte(text), list); err != nil {
				errs = append(errs, fmt.Errorf("requestheader-%s: %w", key, err))
			}
		}
	}
	return p, errors.Join(errs...)
}
