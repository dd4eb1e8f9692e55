package accessreview

import (
	"context"
	"errors"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/apiserver/authn"
)

// token says whose token that is.
func (a answers) token(ctx context.Context, _ *authn.User, body runtime.Object) (runtime.Object, error) {
	review := body.(*authenticationv1.TokenReview)
	if review.Spec.Token == "" {
		return nil, apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	review.Status = authenticationv1.TokenReviewStatus{}
	if a.Tokens == nil {
		return review, nil
	}
	var wanted []string // nil: those of this server
	if len(review.Spec.Audiences) > 0 {
		wanted = review.Spec.Audiences
	}
	user, audiences, err := a.Tokens.AuthenticateToken(ctx, review.Spec.Token, wanted)
	if err != nil {
		review.Status.Error = err.Error()
		return review, nil
	}
	if wanted != nil && len(audiences) == 0 {
		return nil, apierrors.NewInternalError(errors.New("unable to validate audiences"))
	}
	review.Status = authenticationv1.TokenReviewStatus{Authenticated: true, User: userInfo(user), Audiences: audiences}
	return review, nil
}

// self says who asks.
func (a answers) self(_ context.Context, user *authn.User, _ runtime.Object) (runtime.Object, error) {
	review := &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: userInfo(user)}}
	review.SetGroupVersionKind(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"))
	review.CreationTimestamp = metav1.NewTime(a.Now())
	return review, nil
}

func userInfo(user *authn.User) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: user.Name, UID: user.UID, Groups: user.Groups}
	for key, values := range user.Extra {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}
