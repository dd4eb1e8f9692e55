package podspec

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// Limits of the resolvers in C libraries.
const (
	maxNameservers = 3
	maxSearches    = 32
	maxSearchChars = 2048 // of all searches, with the spaces between them

	maxHostname = 64 // HOST_NAME_MAX of Linux
)

func (c *checker) checkDNS(path *field.Path) {
	config := c.spec.DNSConfig
	if c.spec.DNSPolicy == corev1.DNSNone {
		if config == nil {
			c.add(field.Required(path, fmt.Sprintf("must provide `dnsConfig` when `dnsPolicy` is %s", corev1.DNSNone)))
			return
		}
		if len(config.Nameservers) == 0 {
			c.add(field.Required(path.Child("nameservers"), fmt.Sprintf("must provide at least one DNS nameserver when `dnsPolicy` is %s", corev1.DNSNone)))
			return
		}
	}
	if config == nil {
		return
	}
	at := path.Child("nameservers")
	if len(config.Nameservers) > maxNameservers {
		c.add(field.Invalid(at, config.Nameservers, fmt.Sprintf("must not have more than %v nameservers", maxNameservers)))
	}
	stored := validate.StoredOf(c.oldNameservers())
	for i, server := range config.Nameservers {
		c.add(validate.LegacyIP(at.Index(i), server, stored)...)
	}
	at = path.Child("searches")
	if len(config.Searches) > maxSearches {
		c.add(field.Invalid(at, config.Searches, fmt.Sprintf("must not have more than %v search paths", maxSearches)))
	}
	if len(strings.Join(config.Searches, " ")) > maxSearchChars {
		c.add(field.Invalid(at, config.Searches, fmt.Sprintf("must not have more than %v characters (including spaces) in the search list", maxSearchChars)))
	}
	for i, search := range config.Searches {
		if search != "." {
			c.add(validate.Each(strings.TrimSuffix(search, "."), at.Index(i), validation.IsDNS1123SubdomainWithUnderscore)...)
		}
	}
	for i, option := range config.Options {
		if option.Name == "" {
			c.add(field.Required(path.Child("options").Index(i), "must not be empty"))
		}
	}
}

// oldNameservers and oldAliasIPs are the stored addresses, which may be spelled in ways that are refused today.
func (c *checker) oldNameservers() []string {
	if c.opts.Old == nil || c.opts.Old.DNSConfig == nil {
		return nil
	}
	return c.opts.Old.DNSConfig.Nameservers
}

func (c *checker) oldAliasIPs() []string {
	var ips []string
	if c.opts.Old != nil {
		for _, alias := range c.opts.Old.HostAliases {
			ips = append(ips, alias.IP)
		}
	}
	return ips
}

// checkHostnames checks the pod's own host name and the names it knows others by.
func (c *checker) checkHostnames(path *field.Path) {
	if c.spec.Hostname != "" {
		c.add(validate.Each(c.spec.Hostname, path.Child("hostname"), validation.IsDNS1123Label)...)
	}
	if c.spec.Subdomain != "" {
		c.add(validate.Each(c.spec.Subdomain, path.Child("subdomain"), validation.IsDNS1123Label)...)
	}
	c.checkHostnameOverride(path)
	stored := validate.StoredOf(c.oldAliasIPs())
	for i, alias := range c.spec.HostAliases {
		at := path.Child("hostAliases").Index(i)
		c.add(validate.LegacyIP(at.Child("ip"), alias.IP, stored)...)
		for j, name := range alias.Hostnames {
			c.add(validate.Each(name, at.Child("hostnames").Index(j), validation.IsDNS1123Subdomain)...)
		}
	}
}

// checkHostnameOverride checks a host name that stands above all others (KEP-4762); the host's own name is not the
// pod's to set.
func (c *checker) checkHostnameOverride(path *field.Path) {
	if c.spec.HostnameOverride == nil {
		return
	}
	name, at := *c.spec.HostnameOverride, path.Child("hostnameOverride")
	c.add(validate.Each(name, at, validation.IsDNS1123Subdomain)...)
	if len(name) > maxHostname {
		c.add(field.TooLong(at, name, maxHostname))
	}
	if c.spec.HostNetwork {
		c.add(field.Forbidden(at, "may not be specified when hostNetwork is true"))
	}
	if c.spec.SetHostnameAsFQDN != nil && *c.spec.SetHostnameAsFQDN {
		c.add(field.Forbidden(at, "may not be specified when setHostnameAsFQDN is true"))
	}
}
