package plugins

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"vigil/apiserver/admission"
	"vigil/apiserver/admission/noderestriction"
	"vigil/apiserver/admission/podsecurity"
	"vigil/apiserver/admission/quota"
	"vigil/apiserver/authz"
	"vigil/kinds"
)

// Config says what the plug-ins work with. Reader, Quotas, Store and Prefix are needed; a server fills them in itself.
type Config struct {
	// Enable and Disable name plug-ins beside those that are on by default (--enable-admission-plugins,
	// --disable-admission-plugins). Disable wins. "*" in Enable is none, as upstream has it.
	Enable, Disable []string

	// NotReadyTolerationSeconds and UnreachableTolerationSeconds are DefaultTolerationSeconds' (--default-not-ready-toleration-seconds,
	// --default-unreachable-toleration-seconds). Nil: 300.
	NotReadyTolerationSeconds, UnreachableTolerationSeconds *int64

	Reader admission.Reader
	// Quotas is the row of resource quotas; nil: there are none.
	Quotas *kinds.Kind
	Store  quota.Store // for bookings
	Prefix string      // of all keys, with a slash at the end
	// Authorizer decides what users may do with signers; nil: everything.
	Authorizer authz.Authorizer
	Registerer prometheus.Registerer // of the metrics of plug-ins; may be nil

	podSecurity *podsecurity.Plugin // the only one that can fail to be made
}

// entry is a row of the list of plug-ins.
type entry struct {
	name string
	on   bool // by default
	make func(c *Config) admission.Plugin
}

// entries are the plug-ins in upstream's order.
var entries = []entry{
	{"AlwaysAdmit", false, func(*Config) admission.Plugin { return AlwaysAdmit{} }},
	{"NamespaceLifecycle", true, func(c *Config) admission.Plugin { return NamespaceLifecycle{c.Reader} }},
	{"NamespaceExists", false, func(c *Config) admission.Plugin { return NamespaceExists{c.Reader} }},
	{"LimitPodHardAntiAffinityTopology", false, func(*Config) admission.Plugin { return LimitPodHardAntiAffinityTopology{on{pods, writes}} }},
	{"LimitRanger", true, func(c *Config) admission.Plugin { return LimitRanger{c.Reader} }},
	{"ServiceAccount", true, func(c *Config) admission.Plugin { return ServiceAccount{c.Reader} }},
	{"NodeRestriction", false, func(c *Config) admission.Plugin {
		return &noderestriction.Plugin{Reader: c.Reader, Authorizer: c.Authorizer}
	}},
	{"TaintNodesByCondition", true, func(*Config) admission.Plugin { return TaintNodesByCondition{on{nodes, creates}} }},
	{"AlwaysPullImages", false, func(*Config) admission.Plugin { return AlwaysPullImages{} }},
	{"PodSecurity", true, func(c *Config) admission.Plugin { return c.podSecurity }},
	{"PodNodeSelector", false, func(c *Config) admission.Plugin { return PodNodeSelector{on{pods, creates}, c.Reader} }},
	{"Priority", true, func(c *Config) admission.Plugin { return Priority{c.Reader} }},
	{"DefaultTolerationSeconds", true, defaultTolerationSeconds},
	{"ExtendedResourceToleration", false, func(*Config) admission.Plugin { return ExtendedResourceToleration{on{pods, writes}} }},
	{"DefaultStorageClass", true, func(c *Config) admission.Plugin { return DefaultStorageClass{on{claims, creates}, c.Reader} }},
	{"StorageObjectInUseProtection", true, func(*Config) admission.Plugin { return StorageObjectInUseProtection{} }},
	{"PersistentVolumeClaimResize", true, func(c *Config) admission.Plugin { return PersistentVolumeClaimResize{on{claims, updates}, c.Reader} }},
	{"RuntimeClass", true, func(c *Config) admission.Plugin { return RuntimeClass{c.Reader} }},
	{"CertificateApproval", true, func(c *Config) admission.Plugin { return CertificateApproval{signers{c}} }},
	{"CertificateSigning", true, func(c *Config) admission.Plugin { return CertificateSigning{signers{c}} }},
	{"ClusterTrustBundleAttest", true, func(c *Config) admission.Plugin {
		return ClusterTrustBundleAttest{on{trustBundles, writes}, signers{c}}
	}},
	{"CertificateSubjectRestriction", true, func(*Config) admission.Plugin { return CertificateSubjectRestriction{on{requests, creates}} }},
	{"DefaultIngressClass", true, func(c *Config) admission.Plugin { return DefaultIngressClass{on{ingresses, creates}, c.Reader} }},
	{"DenyServiceExternalIPs", false, func(*Config) admission.Plugin { return DenyServiceExternalIPs{on{services, writes}} }},
	{"PodTopologyLabels", true, func(c *Config) admission.Plugin { return PodTopologyLabels{c.Reader} }},
	{"ResourceQuota", true, func(c *Config) admission.Plugin {
		return quota.New(quota.Config{Reader: c.Reader, Store: c.Store, Kind: c.Quotas, Prefix: c.Prefix})
	}},
	{"AlwaysDeny", false, func(*Config) admission.Plugin { return AlwaysDeny{} }},
}

// absent are plug-ins of upstream's that this server does not have: to turn one off is fine, to rely on one is not.
var absent = []string{
	"NamespaceAutoProvision", "ImagePolicyWebhook", "PodTolerationRestriction", "EventRateLimit", "PodGroupProtection", "OwnerReferencesPermissionEnforcement",
	"PodGroupWorkloadExists", "NodeDeclaredFeatureValidator", "JobValidation", "PodResizeValidator",
	"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook",
}

var (
	creates = []admission.Operation{admission.Create}
	updates = []admission.Operation{admission.Update}
	writes  = []admission.Operation{admission.Create, admission.Update}
)

// New makes the plug-ins that are on, in their order. It fails when a name is not one of a plug-in.
func New(c Config) ([]admission.Plugin, error) {
	for _, list := range []struct {
		flag  string
		names []string
	}{{"enable-admission-plugins", c.Enable}, {"disable-admission-plugins", c.Disable}} {
		for _, name := range list.names {
			switch known := slices.ContainsFunc(entries, func(e entry) bool { return e.name == name }); {
			case known, slices.Contains(absent, name) && list.flag == "disable-admission-plugins":
			case slices.Contains(absent, name):
				return nil, fmt.Errorf("%s plugin %q is not part of this server", list.flag, name)
			default:
				return nil, fmt.Errorf("%s plugin %q is unknown", list.flag, name)
			}
		}
	}
	var err error
	if c.podSecurity, err = podsecurity.New(c.Reader, c.Registerer); err != nil {
		return nil, err
	}
	var made []admission.Plugin
	for _, e := range entries {
		if (e.on || slices.Contains(c.Enable, e.name)) && !slices.Contains(c.Disable, e.name) {
			made = append(made, e.make(&c))
		}
	}
	return made, nil
}

// Names lists all plug-ins in their order, and Defaults those that are on unless somebody says otherwise.
func Names() (all, defaults []string) {
	for _, e := range entries {
		all = append(all, e.name)
		if e.on {
			defaults = append(defaults, e.name)
		}
	}
	return all, defaults
}

// Help ends the help texts of the two flags.
func Help() string {
	all, defaults := Names()
	return "of " + strings.Join(all, ", ") + " (on by default: " + strings.Join(defaults, ", ") + ")"
}

// may asks the authorizer.
func (c *Config) may(ctx context.Context, attr *authz.Attributes) (bool, error) {
	if c.Authorizer == nil {
		return true, nil
	}
	allowed, _, err := c.Authorizer.Authorize(ctx, attr)
	return allowed, err
}
