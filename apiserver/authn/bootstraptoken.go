package authn

import (
	"context"
	"crypto/subtle"
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Bootstrap tokens are what a new node shows before it has a certificate: "ID.SECRET", each kept in the Secret
// kube-system/bootstrap-token-ID (--enable-bootstrap-token-auth).
const (
	bootstrapSecretPrefix = "bootstrap-token-"
	bootstrapUserPrefix   = "system:bootstrap:"
	// GroupBootstrappers holds all users of bootstrap tokens.
	GroupBootstrappers = "system:bootstrappers"
)

var (
	bootstrapToken = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)
	bootstrapGroup = regexp.MustCompile(`\Asystem:bootstrappers:[a-z0-9:-]{0,255}[a-z0-9]\z`)
)

// BootstrapTokens knows bootstrap tokens.
type BootstrapTokens struct {
	// Secret finds a Secret of namespace kube-system. A NotFound Status says that there is none.
	Secret func(ctx context.Context, name string) (*corev1.Secret, error)
	// Audiences are the names of this server.
	Audiences []string
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// AuthenticateToken implements [Token]. A token that is wrong in any way is unknown: what is wrong with it is not told.
func (b *BootstrapTokens) AuthenticateToken(ctx context.Context, token string, audiences []string) (*User, []string, error) {
	parts := bootstrapToken.FindStringSubmatch(token)
	good := anyAudience(b.Audiences, audiences)
	if parts == nil || len(good) == 0 && audiences != nil {
		return nil, nil, ErrUnknownToken
	}
	id, key := parts[1], parts[2]
	secret, err := b.Secret(ctx, bootstrapSecretPrefix+id)
	if apierrors.IsNotFound(err) {
		return nil, nil, ErrUnknownToken
	}
	if err != nil {
		return nil, nil, fmt.Errorf("find bootstrap token %s: %w", id, err)
	}
	now := time.Now
	if b.Now != nil {
		now = b.Now
	}
	switch {
	case secret.DeletionTimestamp != nil,
		secret.Type != corev1.SecretTypeBootstrapToken,
		subtle.ConstantTimeCompare(secret.Data["token-secret"], []byte(key)) != 1,
		string(secret.Data["token-id"]) != id,
		expired(secret, now()),
		string(secret.Data["usage-bootstrap-authentication"]) != "true":
		return nil, nil, ErrUnknownToken
	}
	groups := []string{GroupBootstrappers}
	if more := string(secret.Data["auth-extra-groups"]); more != "" {
		for group := range strings.SplitSeq(more, ",") {
			if !bootstrapGroup.MatchString(group) {
				return nil, nil, ErrUnknownToken
			}
			groups = append(groups, group)
		}
	}
	return &User{Name: bootstrapUserPrefix + id, Groups: WithAuthenticated(groups)}, good, nil
}

// expired says whether a token has ended. One whose end cannot be read has.
func expired(secret *corev1.Secret, now time.Time) bool {
	text := string(secret.Data["expiration"])
	if text == "" {
		return false
	}
	end, err := time.Parse(time.RFC3339, text)
	return err != nil || now.After(end)
}

// BootstrapNamespace is where the Secrets of bootstrap tokens are.
const BootstrapNamespace = metav1.NamespaceSystem
