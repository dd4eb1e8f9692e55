package validate

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"
)

// Stored is the values that the stored object has in some fields. They may stay as they are, however they are spelled.
type Stored map[string]bool

// StoredOf returns the set of values.
func StoredOf(values []string) Stored {
	if len(values) == 0 {
		return nil
	}
	s := make(Stored, len(values))
	for _, v := range values {
		s[v] = true
	}
	return s
}

// LegacyIP accepts IP addresses with the rules of fields that are older than those for new fields, and those that are stored.
func LegacyIP(path *field.Path, text string, stored Stored) field.ErrorList {
	if stored[text] {
		return nil
	}
	return validation.IsValidIPForLegacyField(path, text, true, nil)
}

// LegacyCIDR is LegacyIP for networks.
func LegacyCIDR(path *field.Path, text string, stored Stored) field.ErrorList {
	if stored[text] {
		return nil
	}
	return validation.IsValidCIDRForLegacyField(path, text, true, nil)
}

// OrdinaryIP rejects addresses that no endpoint and no external IP may have: unspecified, loopback and link-local
// ones (the latter would reach metadata services). Leading zeros in an octet, which old objects may have, are read
// as decimal.
func OrdinaryIP(text string, path *field.Path) field.ErrorList {
	ip := netutils.ParseIPSloppy(text)
	if ip == nil {
		return field.ErrorList{field.Invalid(path, text, "must be a valid IP address")}
	}
	addr, _ := netip.AddrFromSlice(ip)
	addr = addr.Unmap()
	switch {
	case addr.IsUnspecified():
		return field.ErrorList{field.Invalid(path, text, fmt.Sprintf("may not be unspecified (%v)", text))}
	case addr.IsLoopback():
		return field.ErrorList{field.Invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)")}
	case addr.IsLinkLocalUnicast():
		return field.ErrorList{field.Invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)")}
	case addr.IsLinkLocalMulticast():
		return field.ErrorList{field.Invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")}
	}
	return nil
}

// PortNumber accepts 1 to 65535.
func PortNumber(port int32, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, text := range validation.IsValidPortNum(int(port)) {
		errs = append(errs, field.Invalid(path, port, text))
	}
	return errs
}

// Protocol accepts TCP, UDP and SCTP.
func Protocol(protocol corev1.Protocol, path *field.Path) field.ErrorList {
	return OneOf(protocol, path, corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)
}

// IsIP is true for texts that are IP addresses, also with leading zeros.
func IsIP(text string) bool { return netutils.ParseIPSloppy(text) != nil }

// FamilyOf is the family of an address that has been checked.
func FamilyOf(ip string) corev1.IPFamily {
	if netutils.IsIPv6String(ip) {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// IPWarnings speaks of an address that is accepted but spelled unusually; of a text that is no address it says
// nothing.
func IPWarnings(path *field.Path, text string) []string {
	if !IsIP(text) {
		return nil
	}
	return validation.GetWarningsForIP(path, text)
}

// CIDRWarnings is IPWarnings for networks.
func CIDRWarnings(path *field.Path, text string) []string {
	if _, _, err := netutils.ParseCIDRSloppy(text); err != nil {
		return nil
	}
	return validation.GetWarningsForCIDR(path, text)
}
