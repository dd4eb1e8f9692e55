package upstream

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func tables() map[string][]Section {
	return map[string][]Section{"apiserver": APIServer(), "controller-manager": ControllerManager(), "scheduler": Scheduler(), "kubelet": Kubelet(), "up": Up()}
}

// TestTables sets each flag of a table to what it may be, and to something else.
func TestTables(t *testing.T) {
	for component, table := range tables() {
		seen := map[string]bool{}
		for _, s := range table {
			for _, f := range s.Flags {
				if seen[f.Name] && f.effect != works {
					t.Errorf("%s: --%s is in two places", component, f.Name)
				}
				seen[f.Name] = true
				if f.effect == works {
					continue
				}
				if f.Why == "" {
					t.Errorf("%s: --%s: the table does not say why", component, f.Name)
				}
				flags := pflag.NewFlagSet(component, pflag.ContinueOnError)
				Add(flags, []Section{{Flags: []Flag{f}}})
				if err := flags.Parse([]string{"--" + f.Name + "=" + f.Value}); err != nil && f.Value != "" {
					t.Errorf("%s: %v", component, err)
				}
				err := flags.Parse([]string{"--" + f.Name + "=" + other(f)})
				switch {
				case f.effect == ignored && err != nil:
					t.Errorf("%s: %v", component, err)
				case f.effect == fixed && (err == nil || !strings.Contains(err.Error(), "--"+f.Name) || !strings.Contains(err.Error(), f.Why)):
					t.Errorf("%s: --%s=%s: %v, want a refusal with its reason", component, f.Name, other(f), err)
				}
				if f.kind() != "string" {
					if err := flags.Parse([]string{"--" + f.Name + "=nonsense"}); err == nil {
						t.Errorf("%s: --%s=nonsense is accepted", component, f.Name)
					}
				}
			}
		}
	}
}

// other is a value of the flag's kind that is not the usual one.
func other(f Flag) string {
	switch f.kind() {
	case "bool":
		if f.Value == "true" {
			return "false"
		}
		return "true"
	case "int":
		return "77"
	case "float":
		return "0.77"
	case "duration":
		return "77s"
	}
	return "other"
}

func TestAdd_SameValueOtherwiseWritten(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	Add(flags, []Section{{Flags: []Flag{only("period", "1m0s", "why"), only("on", "true", "why"), only("n", "16", "why")}}})
	if err := flags.Parse([]string{"--period=60s", "--on", "--on=1", "--n=0x10"}); err != nil {
		t.Error(err)
	}
}

func TestAdd_LeavesOwnFlags(t *testing.T) {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	mine := flags.Int("n", 1, "")
	Add(flags, []Section{{Flags: []Flag{only("n", "1", "why")}}})
	if err := flags.Parse([]string{"--n=5"}); err != nil || *mine != 5 {
		t.Errorf("the component's own flag is %d, %v", *mine, err)
	}
}

func TestGates(t *testing.T) {
	for _, c := range []struct{ set, want string }{
		{"", ""},
		{"SidecarContainers=true", ""}, // GA
		{"SidecarContainers=true,DynamicResourceAllocation=true,CSIVolumeHealth=false", ""},
		{"APIServerIdentity=true", ""}, // of the generic API server
		{"AllAlpha=false,AllBeta=false", ""},
		{"CRDObservedGenerationTracking=true", ""}, // on since 1.36
		{"ContextualLogging=true,LoggingBetaOptions=true,NativeHistograms=true,ComponentStatusz=true,ComponentFlagz=true", ""}, // of all components
		{"LoggingAlphaOptions=true", "features are what they are by default here"},
		{"SidecarContainers=false", "cannot set feature gate SidecarContainers to false, feature is locked to true"},
		{"NoSuchFeature=true", "unrecognized feature gate: NoSuchFeature"},
		{"SidecarContainers", "missing bool value for SidecarContainers"},
		{"SidecarContainers=perhaps", "invalid value of SidecarContainers=perhaps"},
		{"HPAScaleToZero=true", "HPAScaleToZero=true: features are what they are by default here"},
		{"ImageVolume=false", "ImageVolume=false: features are what they are by default here"},
		{"AllAlpha=true", "AllAlpha=true: features are what they are by default here"},
	} {
		var g Gates
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		g.Add(flags)
		err := flags.Parse([]string{"--feature-gates=" + c.set})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.set, err, c.want)
		}
	}
}

func TestRuntimeConfig(t *testing.T) {
	for _, c := range []struct{ set, want string }{
		{"", ""},
		{"api/ga=true,apps/v1=true,v1=true,api/v1", ""},
		{"api/beta=false,api/alpha=false,storage.k8s.io/v1beta1=false", ""},
		{"apps/v1=false", "stable versions are always served"},
		{"api/ga=false", "stable versions are always served"},
		{"api/all=true", "only stable versions are served"},
		{"api/beta=true", "only stable versions are served"},
		{"storage.k8s.io/v1beta1=true", "only stable versions are served"},
		{"nobody.example.com/v1=true", "unknown api groups nobody.example.com"},
		{"apps/v1=perhaps", "invalid value of apps/v1=perhaps"},
	} {
		var r RuntimeConfig
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		r.Add(flags, []string{"v1", "apps/v1"})
		err := flags.Parse([]string{"--runtime-config=" + c.set})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%q: %v, want %q", c.set, err, c.want)
		}
	}
}
