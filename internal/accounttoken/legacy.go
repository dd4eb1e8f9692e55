package accounttoken

import (
	"fmt"
	"time"

	jose "github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// LegacyIssuer is who the tokens in Secrets come from.
const LegacyIssuer = "kubernetes/serviceaccount"

// Labels of a Secret that say how its token is used. Their values are dates in the form of DateFormat, in UTC.
const (
	// LastUsedLabel is the day on which the token was last used. The API server writes it.
	LastUsedLabel = "kubernetes.io/legacy-token-last-used"
	// InvalidSinceLabel is the day since which the token is refused, because nobody had used it for long. The cleaner writes it;
	// who removes it makes the token good again.
	InvalidSinceLabel = "kubernetes.io/legacy-token-invalid-since"

	DateFormat = time.DateOnly
)

// TrackingConfigMap of namespace kube-system says under TrackingSince since which day LastUsedLabel is written. Of what was before, nobody
// can tell whether it was used.
const (
	TrackingConfigMap = "kube-apiserver-legacy-service-account-token-tracking"
	TrackingSince     = "since"
)

// LegacyClaims are what the token in a Secret says of itself, besides its issuer and its subject.
type LegacyClaims struct {
	Namespace  string `json:"kubernetes.io/serviceaccount/namespace,omitempty"`
	Secret     string `json:"kubernetes.io/serviceaccount/secret.name,omitempty"`
	Account    string `json:"kubernetes.io/serviceaccount/service-account.name,omitempty"`
	AccountUID string `json:"kubernetes.io/serviceaccount/service-account.uid,omitempty"`
}

// SignLegacy makes the token of a Secret. It has neither times nor a random part: the same claims make the same payload.
func SignLegacy(signer jose.Signer, claims LegacyClaims) (string, error) {
	token, err := jwt.Signed(signer).Claims(claims).Claims(jwt.Claims{
		Issuer: LegacyIssuer, Subject: Username(claims.Namespace, claims.Account),
	}).Serialize()
	if err != nil {
		return "", fmt.Errorf("sign token of secret %s/%s: %w", claims.Namespace, claims.Secret, err)
	}
	return token, nil
}

// Username is the user name of a service account.
func Username(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}
