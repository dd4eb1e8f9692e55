package serviceaccount

import (
	"github.com/go-jose/go-jose/v4/jwt"
)

// privateClaims are what tokens say beyond RFC 7519.
type privateClaims struct {
	Kubernetes kubernetesClaims `json:"kubernetes.io,omitempty"`
	// Audience is set when a token is made: as upstream writes it, one audience is a list, too. Package jwt would make it
	// a string.
	Audience []string `json:"aud,omitempty"`
}

type kubernetesClaims struct {
	Namespace      string           `json:"namespace,omitempty"`
	ServiceAccount ref              `json:"serviceaccount,omitempty"`
	Pod            *ref             `json:"pod,omitempty"`
	Secret         *ref             `json:"secret,omitempty"`
	Node           *ref             `json:"node,omitempty"`
	WarnAfter      *jwt.NumericDate `json:"warnafter,omitempty"`
}

// ref is one incarnation of an object.
type ref struct {
	Name string `json:"name,omitempty"`
	UID  string `json:"uid,omitempty"`
}

// Keys of what a token adds to its user's extra values.
const (
	extraPodName      = "authentication.kubernetes.io/pod-name"
	extraPodUID       = "authentication.kubernetes.io/pod-uid"
	extraNodeName     = "authentication.kubernetes.io/node-name"
	extraNodeUID      = "authentication.kubernetes.io/node-uid"
	extraCredentialID = "authentication.kubernetes.io/credential-id"
)

// Tokens of pods that ask for just these seconds are the kubelet's projected default. They live a year instead, so that
// clients which never read their token again go on working.
const (
	extendedRequestSeconds = 60*60 + 7
	extendedSeconds        = 365 * 24 * 60 * 60
)
