package upstream

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes/scheme"
)

// RuntimeConfig is --runtime-config. All stable versions are served, and no others: saying so is accepted.
type RuntimeConfig struct {
	served []string // "v1", "apps/v1"
	given  []string
}

// Add defines the flag. served are the group versions that are served.
func (r *RuntimeConfig) Add(flags *pflag.FlagSet, served []string) {
	r.served = served
	flags.Var(r, "runtime-config", "GROUP/VERSION=true|false,...: versions of the API; stable ones are served, api/all, api/ga, api/beta and api/alpha stand for all of a kind")
}

// String, Type and Set make it a pflag.Value.
func (r *RuntimeConfig) String() string { return strings.Join(r.given, ",") }
func (r *RuntimeConfig) Type() string   { return "mapStringString" }

// Set reads GROUP/VERSION=true; without a value it is true.
func (r *RuntimeConfig) Set(text string) error {
	for pair := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if key == "" {
			continue
		}
		on := true
		if value != "" {
			var err error
			if on, err = strconv.ParseBool(value); err != nil {
				return fmt.Errorf("invalid value of %s", pair)
			}
		}
		if err := r.check(key, on); err != nil {
			return err
		}
	}
	r.given = append(r.given, text)
	return nil
}

func (r *RuntimeConfig) check(key string, on bool) error {
	switch key {
	case "api/ga":
		if !on {
			return fmt.Errorf("%s=false: stable versions are always served", key)
		}
		return nil
	case "api/all", "api/beta", "api/alpha":
		if on {
			return fmt.Errorf("%s=true: only stable versions are served", key)
		}
		if key == "api/all" {
			return fmt.Errorf("invalid key with only api/all=false")
		}
		return nil
	}
	group, rest, found := strings.Cut(key, "/")
	version, _, _ := strings.Cut(rest, "/")
	name := group + "/" + version
	if !found || group == "api" { // v1, api/v1
		group, name = "", strings.TrimPrefix(key, "api/")
	}
	switch {
	case slices.Contains(r.served, name) && on:
		return nil
	case slices.Contains(r.served, name):
		return fmt.Errorf("%s=false: stable versions are always served", key)
	case !scheme.Scheme.IsGroupRegistered(group):
		return fmt.Errorf("unknown api groups %s", group)
	case on:
		return fmt.Errorf("%s=true: only stable versions are served", key)
	}
	return nil
}
