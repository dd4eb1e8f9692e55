package encryption

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
	"k8s.io/apiserver/pkg/storage/value"
)

// Config says where the configuration is, and what the keys in etcd stand for.
type Config struct {
	File   string // --encryption-provider-config
	Reload bool   // --encryption-provider-config-automatic-reload: Run follows changes of the file

	Prefix string // of all keys in etcd, with a slash at the end
	// Resources by their place under the prefix: "secrets", "services/specs". Places that are not among them and have the form
	// GROUP/RESOURCE, with a dot in the group, are those of custom resources; all others are never encrypted.
	Resources map[string]schema.GroupResource

	ServerID string       // tells servers apart in metrics of KMS plug-ins
	Logger   *slog.Logger // nil discards
}

// Keys encrypts and decrypts. All methods may be called by many goroutines, Run by one.
type Keys struct {
	config Config
	poll   time.Duration // between two looks at the file
	ctx    context.Context
	cancel context.CancelFunc

	current atomic.Pointer[generation]
}

// generation is what one state of the file says. It is immutable.
type generation struct {
	rules  map[schema.GroupResource]value.Transformer
	byPath map[string]value.Transformer // nil for resources that no rule names
	checks []healthz.HealthChecker
	hash   string
	grace  time.Duration // how long calls to KMS plug-ins may take
	cancel context.CancelFunc
}

// errEncrypted says that a value is encrypted whose resource should not be.
var errEncrypted = errors.New("the value is encrypted, but no provider is configured for its resource")

// reloadEvery is upstream's time between two looks at the file.
const reloadEvery = time.Minute

// Load reads and checks the configuration. KMS plug-ins are asked for their state from then on, until Close.
func Load(config Config) (*Keys, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	k := &Keys{config: config, poll: reloadEvery}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	g, err := k.load()
	if err != nil {
		k.cancel()
		return nil, fmt.Errorf("encryption configuration: %w", err)
	}
	k.current.Store(g)
	return k, nil
}

// Close ends the connections to KMS plug-ins.
func (k *Keys) Close() { k.cancel() }

func (k *Keys) load() (*generation, error) {
	ctx, cancel := context.WithCancel(k.ctx)
	c, err := encryptionconfig.LoadEncryptionConfig(ctx, k.config.File, k.config.Reload, k.config.ServerID)
	if err != nil {
		cancel()
		return nil, err
	}
	g := &generation{
		rules:  c.Transformers,
		byPath: make(map[string]value.Transformer, len(k.config.Resources)),
		checks: c.HealthChecks,
		hash:   c.EncryptionFileContentHash,
		grace:  c.KMSCloseGracePeriod,
		cancel: cancel,
	}
	for path, resource := range k.config.Resources {
		g.byPath[path] = g.rule(resource)
	}
	return g, nil
}

// rule finds what is to be done with a resource, nil for nothing. The most special rule wins.
func (g *generation) rule(gr schema.GroupResource) value.Transformer {
	for _, name := range []schema.GroupResource{gr, {Group: gr.Group, Resource: "*"}, {Group: "*", Resource: "*"}} {
		if t := g.rules[name]; t != nil {
			return t
		}
	}
	return nil
}

// transformer finds what is to be done with a key, nil for nothing.
func (k *Keys) transformer(key string) value.Transformer {
	g := k.current.Load()
	path, ok := strings.CutPrefix(key, k.config.Prefix)
	if !ok {
		return nil
	}
	first, rest, _ := strings.Cut(path, "/")
	if t, ok := g.byPath[first]; ok {
		return t
	}
	second, _, _ := strings.Cut(rest, "/")
	if t, ok := g.byPath[path[:min(len(first)+1+len(second), len(path))]]; ok {
		return t
	}
	if strings.Contains(first, ".") && second != "" {
		return g.rule(schema.GroupResource{Group: first, Resource: second})
	}
	return nil
}

// Seal implements [store.Sealer].
func (k *Keys) Seal(ctx context.Context, key string, data []byte) ([]byte, error) {
	t := k.transformer(key)
	if t == nil {
		return data, nil
	}
	return t.TransformToStorage(ctx, data, value.DefaultContext(key))
}

// Open implements [store.Sealer].
func (k *Keys) Open(ctx context.Context, key string, stored []byte) (data []byte, stale bool, err error) {
	t := k.transformer(key)
	if t == nil {
		if bytes.HasPrefix(stored, []byte("k8s:enc:")) {
			return nil, false, errEncrypted
		}
		return stored, false, nil
	}
	return t.TransformFromStorage(ctx, stored, value.DefaultContext(key))
}

// Check says whether all KMS plug-ins are well.
func (k *Keys) Check(ctx context.Context) error { return k.current.Load().check(ctx) }

func (g *generation) check(ctx context.Context) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/healthz", nil)
	if err != nil {
		return err
	}
	for _, c := range g.checks {
		if err := c.Check(r); err != nil {
			return fmt.Errorf("%s: %w", c.Name(), err)
		}
	}
	return nil
}
