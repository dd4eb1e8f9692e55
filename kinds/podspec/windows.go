package podspec

import (
	"fmt"
	"regexp"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/validate"
)

// Limits of Windows account names and of the specs of group managed service accounts.
const (
	maxGMSASpecKiB     = 64
	maxWindowsDomain   = 255
	maxWindowsUserName = 104
)

var (
	controlChars  = regexp.MustCompile(`[[:cntrl:]]+`)
	netBIOSDomain = regexp.MustCompile(`^[^\\/:\*\?"<>|\.][^\\/:\*\?"<>|]{0,14}$`)
	dnsDomain     = regexp.MustCompile(`^[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?)*$`)
	badUserChars  = regexp.MustCompile(`["/\\:;|=,\+\*\?<>@\[\]]`)
	onlyDots      = regexp.MustCompile(`^[\. ]+$`)
)

func (c *checker) checkWindowsOptions(o *corev1.WindowsSecurityContextOptions, path *field.Path) {
	if o == nil {
		return
	}
	if o.GMSACredentialSpecName != nil {
		c.add(validate.Each(*o.GMSACredentialSpecName, path.Child("gmsaCredentialSpecName"), validation.IsDNS1123Subdomain)...)
	}
	if o.GMSACredentialSpec != nil {
		at := path.Child("gmsaCredentialSpec")
		if n := len(*o.GMSACredentialSpec); n == 0 {
			c.add(field.Invalid(at, o.GMSACredentialSpec, "gmsaCredentialSpec cannot be an empty string"))
		} else if n > maxGMSASpecKiB<<10 {
			c.add(field.Invalid(at, o.GMSACredentialSpec, fmt.Sprintf("gmsaCredentialSpec size must be under %d KiB", maxGMSASpecKiB)))
		}
	}
	if o.RunAsUserName != nil {
		for _, text := range windowsUserName(*o.RunAsUserName) {
			c.add(field.Invalid(path.Child("runAsUserName"), o.RunAsUserName, "runAsUserName"+text))
		}
	}
}

// windowsUserName says what is wrong with USER or DOMAIN\USER, in texts to follow the field's name.
func windowsUserName(name string) []string {
	domain, user, hasDomain := strings.Cut(name, `\`)
	if !hasDomain {
		user = domain
		domain = ""
	}
	switch {
	case name == "":
		return []string{" cannot be an empty string"}
	case controlChars.MatchString(name):
		return []string{" cannot contain control characters"}
	case strings.Contains(user, `\`):
		return []string{" cannot contain more than one backslash"}
	}
	var texts []string
	if len(domain) > maxWindowsDomain {
		texts = append(texts, fmt.Sprintf("'s Domain length must be under %d characters", maxWindowsDomain+1))
	}
	if hasDomain && !netBIOSDomain.MatchString(domain) && !dnsDomain.MatchString(domain) {
		texts = append(texts, "'s Domain doesn't match the NetBios nor the DNS format")
	}
	if user == "" {
		texts = append(texts, "'s User cannot be empty")
	} else if len(user) > maxWindowsUserName {
		texts = append(texts, fmt.Sprintf("'s User length must not be longer than %d characters", maxWindowsUserName))
	}
	if onlyDots.MatchString(user) {
		texts = append(texts, "'s User cannot contain only periods or spaces")
	}
	if badUserChars.MatchString(user) {
		texts = append(texts, `'s User cannot contain the following characters: "/\:;|=,+*?<>@[]`)
	}
	return texts
}

// checkHostProcess wants either all containers of a Windows pod to run as processes of the host, on the host's
// network, or none.
func (c *checker) checkHostProcess(path *field.Path) {
	var pod *bool
	if s := c.spec.SecurityContext; s != nil && s.WindowsOptions != nil {
		pod = s.WindowsOptions.HostProcess
	}
	containers, onHost := 0, 0
	VisitContainers(c.spec, path, func(container *corev1.Container, at *field.Path) {
		containers++
		effective := pod
		if s := container.SecurityContext; s != nil && s.WindowsOptions != nil && s.WindowsOptions.HostProcess != nil {
			effective = s.WindowsOptions.HostProcess
			if pod != nil && *pod != *effective {
				c.add(field.Invalid(at.Child("securityContext", "windowsOptions", "hostProcess"), *effective,
					fmt.Sprintf("pod hostProcess value must be identical if both are specified, was %v", *pod)))
			}
		}
		if effective != nil && *effective {
			onHost++
		}
	})
	if onHost == 0 {
		return
	}
	if onHost != containers {
		c.add(field.Invalid(path, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers"))
	}
	if !c.spec.HostNetwork {
		c.add(field.Invalid(path.Child("hostNetwork"), false, "hostNetwork must be true if pod contains any hostProcess containers"))
	}
}
