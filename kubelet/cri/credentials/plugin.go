package credentials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	kubeletconfig "k8s.io/kubelet/config/v1"
	credentialprovider "k8s.io/kubelet/pkg/apis/credentialprovider/v1"
	"sigs.k8s.io/yaml"
)

// pluginTimeout is how long a plug-in may take.
const pluginTimeout = time.Minute

// Bounds of what a plug-in prints, in bytes, and of the answers that are remembered of one.
const (
	outputLimit     = 1 << 20
	complaintsLimit = 4 << 10
	cacheLimit      = 1000
)

// Plugins are the credential provider plug-ins of a node (KEP-2133): programs that say who may pull an image.
type Plugins struct {
	plugins []*plugin
}

type plugin struct {
	config  kubeletconfig.CredentialProvider
	program string
	running singleflight.Group // by image

	mu    sync.Mutex
	cache map[string]answer // by what the answers said they are good for
}

type answer struct {
	logins  map[string]Login // by registry
	expires time.Time
}

// LoadPlugins reads the file of --image-credential-provider-config, a CredentialProviderConfig, whose plug-ins are programs
// in binDir, --image-credential-provider-bin-dir. Plug-ins that want tokens of service accounts are not supported.
func LoadPlugins(file, binDir string) (*Plugins, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the credential provider configuration: %w", err)
	}
	var config kubeletconfig.CredentialProviderConfig
	if err := yaml.UnmarshalStrict(data, &config); err != nil {
		return nil, fmt.Errorf("read the credential provider configuration %s: %w", file, err)
	}
	if config.Kind != "CredentialProviderConfig" || !strings.HasPrefix(config.APIVersion, "kubelet.config.k8s.io/v1") {
		return nil, fmt.Errorf("%s is %s %s, not CredentialProviderConfig of kubelet.config.k8s.io/v1", file, config.APIVersion, config.Kind)
	}
	if len(config.Providers) == 0 {
		return nil, fmt.Errorf("%s: at least 1 provider is required", file)
	}
	plugins := &Plugins{}
	seen := map[string]bool{}
	for _, c := range config.Providers {
		p := &plugin{config: c, program: filepath.Join(binDir, c.Name), cache: map[string]answer{}}
		if err := p.check(); err != nil {
			return nil, fmt.Errorf("%s: provider %q: %w", file, c.Name, err)
		}
		if seen[c.Name] {
			return nil, fmt.Errorf("%s: provider %q is there twice", file, c.Name)
		}
		seen[c.Name] = true
		plugins.plugins = append(plugins.plugins, p)
	}
	return plugins, nil
}

func (p *plugin) check() error {
	c := &p.config
	switch {
	case c.Name == "" || c.Name != filepath.Base(c.Name) || c.Name == "." || c.Name == "..":
		return errors.New("the name is the file name of a program")
	case len(c.MatchImages) == 0:
		return errors.New("matchImages is required")
	case c.DefaultCacheDuration == nil || c.DefaultCacheDuration.Duration < 0:
		return errors.New("defaultCacheDuration is required and not negative")
	case !slices.Contains([]string{"v1", "v1beta1", "v1alpha1"}, strings.TrimPrefix(c.APIVersion, "credentialprovider.kubelet.k8s.io/")):
		return fmt.Errorf("unsupported apiVersion %q", c.APIVersion)
	case c.TokenAttributes != nil:
		return errors.New("tokenAttributes are not supported")
	}
	if _, err := exec.LookPath(p.program); err != nil {
		return fmt.Errorf("find the program: %w", err)
	}
	return nil
}

// AddTo puts in what plug-ins know of a repository. A plug-in that fails takes nothing from the others; what failed is returned.
func (p *Plugins) AddTo(ctx context.Context, k *Keyring, repository string) error {
	if p == nil {
		return nil
	}
	var failed error
	for _, plugin := range p.plugins {
		if !slices.ContainsFunc(plugin.config.MatchImages, func(registry string) bool { return Match(registry, repository) }) {
			continue
		}
		logins, err := plugin.ask(ctx, repository)
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("credential provider %s: %w", plugin.config.Name, err))
			continue
		}
		for _, registry := range slices.Sorted(maps.Keys(logins)) {
			k.Add(registry, logins[registry], Source{})
		}
	}
	return failed
}

// Keys of the cache: answers are good for one image, one registry, or every image.
func cacheKeys(image string) map[credentialprovider.PluginCacheKeyType]string {
	registry, _, _ := strings.Cut(image, "/")
	return map[credentialprovider.PluginCacheKeyType]string{
		credentialprovider.ImagePluginCacheKeyType:    "image " + image,
		credentialprovider.RegistryPluginCacheKeyType: "registry " + registry,
		credentialprovider.GlobalPluginCacheKeyType:   "global",
	}
}

// ask returns the plug-in's logins by registry, from the cache if it can. Images asked for at once are asked for once.
func (p *plugin) ask(ctx context.Context, image string) (map[string]Login, error) {
	keys := cacheKeys(image)
	if logins, found := p.cached(keys); found {
		return logins, nil
	}
	logins, err, _ := p.running.Do(image, func() (any, error) {
		response, err := p.run(ctx, image)
		if err != nil {
			return nil, err
		}
		key, known := keys[response.CacheKeyType]
		if !known {
			return nil, fmt.Errorf("cacheKeyType %q is unknown", response.CacheKeyType)
		}
		logins := make(map[string]Login, len(response.Auth))
		for registry, auth := range response.Auth {
			logins[registry] = Login{Username: auth.Username, Password: auth.Password}
		}
		duration := p.config.DefaultCacheDuration.Duration
		if response.CacheDuration != nil {
			duration = response.CacheDuration.Duration
		}
		if duration > 0 {
			p.mu.Lock()
			defer p.mu.Unlock()
			for old := range p.cache {
				if len(p.cache) < cacheLimit {
					break
				}
				delete(p.cache, old) // any: pods may name any number of images
			}
			p.cache[key] = answer{logins: logins, expires: time.Now().Add(duration)}
		}
		return logins, nil
	})
	if err != nil {
		return nil, err
	}
	return logins.(map[string]Login), nil
}

func (p *plugin) cached(keys map[credentialprovider.PluginCacheKeyType]string) (map[string]Login, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.cache, func(_ string, a answer) bool { return time.Now().After(a.expires) })
	for _, key := range keys {
		if a, found := p.cache[key]; found {
			return a.logins, true
		}
	}
	return nil, false
}

// run runs the program: the request on its standard input, the response on its standard output.
func (p *plugin) run(ctx context.Context, image string) (*credentialprovider.CredentialProviderResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, pluginTimeout)
	defer cancel()
	request := credentialprovider.CredentialProviderRequest{Image: image}
	request.Kind, request.APIVersion = "CredentialProviderRequest", p.config.APIVersion
	input, err := json.Marshal(request)
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	output, complaints := limitedBuffer{limit: outputLimit}, limitedBuffer{limit: complaintsLimit}
	command := exec.CommandContext(ctx, p.program, p.config.Args...)
	command.Env = os.Environ()
	for _, e := range p.config.Env {
		command.Env = append(command.Env, e.Name+"="+e.Value)
	}
	command.Stdin, command.Stdout, command.Stderr = bytes.NewReader(input), &output, &complaints
	command.WaitDelay = time.Second // children of the program may keep its output open
	if err := command.Run(); err != nil {
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, fmt.Errorf("error execing credential provider plugin %s for image %s: %w: %s", p.config.Name, image, err, bytes.TrimSpace(complaints.kept))
	}
	if output.dropped {
		return nil, fmt.Errorf("the response has more than %d bytes", outputLimit)
	}
	var response credentialprovider.CredentialProviderResponse
	if err := json.Unmarshal(output.kept, &response); err != nil {
		return nil, fmt.Errorf("read the response: %w", err)
	}
	if response.Kind != "CredentialProviderResponse" || response.APIVersion != p.config.APIVersion {
		return nil, fmt.Errorf("the response is %s %s, not CredentialProviderResponse of %s", response.APIVersion, response.Kind, p.config.APIVersion)
	}
	return &response, nil
}

// limitedBuffer keeps the beginning of what is written to it.
type limitedBuffer struct {
	kept    []byte
	limit   int
	dropped bool // there was more
}

func (b *limitedBuffer) Write(p []byte) (int, error) {
	kept := p[:min(len(p), b.limit-len(b.kept))]
	b.dropped = b.dropped || len(kept) < len(p)
	b.kept = append(b.kept, kept...)
	return len(p), nil
}
