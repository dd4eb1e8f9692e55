package validate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func TestOrdinaryIP(t *testing.T) {
	for ip, want := range map[string]string{
		"10.0.0.1":         "",
		"010.0.0.1":        "",
		"fd00::1":          "",
		"x":                `ip: Invalid value: "x": must be a valid IP address`,
		"0.0.0.0":          `ip: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)`,
		"127.1.2.3":        `ip: Invalid value: "127.1.2.3": may not be in the loopback range (127.0.0.0/8, ::1/128)`,
		"::ffff:127.0.0.1": `ip: Invalid value: "::ffff:127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)`,
		"::1":              `ip: Invalid value: "::1": may not be in the loopback range (127.0.0.0/8, ::1/128)`,
		"fe80::1":          `ip: Invalid value: "fe80::1": may not be in the link-local range (169.254.0.0/16, fe80::/10)`,
		"ff02::1":          `ip: Invalid value: "ff02::1": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)`,
	} {
		got := ""
		if errs := OrdinaryIP(ip, field.NewPath("ip")); len(errs) > 0 {
			got = errs[0].Error()
		}
		if got != want {
			t.Errorf("%s: %q, want %q", ip, got, want)
		}
	}
}

func TestFamilyOf(t *testing.T) {
	for ip, want := range map[string]corev1.IPFamily{"10.0.0.1": "IPv4", "fd00::1": "IPv6"} {
		if got := FamilyOf(ip); got != want {
			t.Errorf("%s: %s, want %s", ip, got, want)
		}
	}
}

func TestWarnings_NoAddress(t *testing.T) {
	path := field.NewPath("x")
	if got := append(IPWarnings(path, "no address"), CIDRWarnings(path, "no network")...); len(got) != 0 {
		t.Errorf("warnings: %v", got)
	}
	if got := CIDRWarnings(path, "10.0.0.1/8"); len(got) != 1 {
		t.Errorf("warnings: %v", got)
	}
}
