package credentials

import (
	"net"
	"net/url"
	"path"
	"slices"
	"strings"
)

// Login is a user name with a password, as a registry wants them.
type Login struct {
	Username, Password string
}

// Source says where a login is from. A login that no secret gave may be used by every pod.
type Source struct {
	Namespace, Name, UID string // of a secret; empty for what a plug-in gave
}

// Credential is a login for what Registry matches.
type Credential struct {
	Login
	Registry string
	Source   Source
}

// dockerHub is the key under which logins for images without a host stand.
const dockerHub = "index.docker.io"

// Keyring holds credentials by registry. The zero value is empty.
type Keyring struct {
	byRegistry map[string][]Credential
}

// Add puts a login in under a registry as people write it, with or without a scheme and "/v1/" or "/v2/". What is no registry is left out.
func (k *Keyring) Add(registry string, login Login, source Source) {
	key, valid := normalize(registry)
	if !valid {
		return
	}
	if k.byRegistry == nil {
		k.byRegistry = map[string][]Credential{}
	}
	k.byRegistry[key] = append(k.byRegistry[key], Credential{Login: login, Registry: key, Source: source})
}

func normalize(registry string) (key string, valid bool) {
	if !strings.HasPrefix(registry, "https://") && !strings.HasPrefix(registry, "http://") {
		registry = "https://" + registry
	}
	parsed, err := url.Parse(registry)
	if err != nil || parsed.Host == "" {
		return "", false
	}
	below := parsed.Path
	for _, version := range []string{"/v1/", "/v2/"} {
		if strings.HasPrefix(below, version) {
			below = below[len(version)-1:]
			break
		}
	}
	if below == "/" {
		below = ""
	}
	return parsed.Host + below, true
}

// Lookup returns all that may pull from a repository ("docker.io/library/nginx"), the most specific first.
func (k *Keyring) Lookup(repository string) []Credential {
	var found []Credential
	registries := make([]string, 0, len(k.byRegistry))
	for r := range k.byRegistry {
		registries = append(registries, r)
	}
	slices.Sort(registries)
	slices.Reverse(registries) // what is longer stands before what it begins with
	for _, r := range registries {
		if Match(r, repository) {
			found = append(found, k.byRegistry[r]...)
		}
	}
	if len(found) == 0 && onDockerHub(repository) {
		found = slices.Clone(k.byRegistry[dockerHub])
	}
	return found
}

// Match says whether a repository belongs to a registry. Hosts match part by part, where the registry's may have wildcards; ports
// are the same; the repository's path begins with the registry's.
func Match(registry, repository string) bool {
	of, err := url.Parse("https://" + registry)
	if err != nil {
		return false
	}
	wanted, err := url.Parse("https://" + repository)
	if err != nil {
		return false
	}
	ofParts, ofPort := split(of.Host)
	wantedParts, wantedPort := split(wanted.Host)
	if ofPort != wantedPort || len(ofParts) != len(wantedParts) || !strings.HasPrefix(wanted.Path, of.Path) {
		return false
	}
	for i, pattern := range ofParts {
		if matches, err := path.Match(pattern, wantedParts[i]); err != nil || !matches {
			return false
		}
	}
	return true
}

// split takes a host apart at its dots.
func split(host string) (parts []string, port string) {
	if name, found, err := net.SplitHostPort(host); err == nil {
		host, port = name, found
	}
	return strings.Split(host, "."), port
}

// onDockerHub says whether an image's name has no host but Docker's own.
func onDockerHub(image string) bool {
	first, _, more := strings.Cut(image, "/")
	switch {
	case first == "":
		return false
	case !more, first == "docker.io", first == dockerHub:
		return true
	}
	return !strings.ContainsAny(first, ".:")
}
