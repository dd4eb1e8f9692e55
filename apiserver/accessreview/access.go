package accessreview

import (
	"context"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
)

// access says what somebody may do.
func (a answers) access(ctx context.Context, _ *authn.User, body runtime.Object) (runtime.Object, error) {
	review := body.(*authorizationv1.SubjectAccessReview)
	review.Status = a.ask(ctx, subject(&review.Spec), review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	return review, nil
}

func (a answers) localAccess(ctx context.Context, _ *authn.User, body runtime.Object) (runtime.Object, error) {
	review := body.(*authorizationv1.LocalSubjectAccessReview)
	review.Status = a.ask(ctx, subject(&review.Spec), review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	return review, nil
}

func (a answers) selfAccess(ctx context.Context, user *authn.User, body runtime.Object) (runtime.Object, error) {
	review := body.(*authorizationv1.SelfSubjectAccessReview)
	review.Status = a.ask(ctx, user, review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	return review, nil
}

// subject is the user that a review names. Groups are what it says, nothing is added.
func subject(spec *authorizationv1.SubjectAccessReviewSpec) *authn.User {
	user := &authn.User{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for key, values := range spec.Extra {
		if user.Extra == nil {
			user.Extra = map[string][]string{}
		}
		user.Extra[key] = values
	}
	return user
}

// ask puts one of the two questions to the authorizer.
func (a answers) ask(ctx context.Context, user *authn.User, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) authorizationv1.SubjectAccessReviewStatus {
	attr := &authz.Attributes{User: user}
	var problems []string
	if resource != nil {
		attr.Verb, attr.Namespace, attr.Name = resource.Verb, resource.Namespace, resource.Name
		attr.Group, attr.Version, attr.Resource, attr.Subresource = resource.Group, resource.Version, resource.Resource, resource.Subresource
		if attr.Version == "" {
			attr.Version = "*"
		}
		problems = selectors(attr, resource)
	} else {
		attr.Verb, attr.Path = path.Verb, path.Path
	}
	decision, reason, err := authz.Decide(ctx, a.Authorizer, attr)
	if err != nil {
		problems = append([]string{err.Error()}, problems...)
	}
	return authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authz.Allow, Denied: decision == authz.Deny, Reason: reason, EvaluationError: strings.Join(problems, "; "),
	}
}

// rules lists what the caller may do in a namespace.
func (a answers) rules(ctx context.Context, user *authn.User, body runtime.Object) (runtime.Object, error) {
	namespace := body.(*authorizationv1.SelfSubjectRulesReview).Spec.Namespace
	if namespace == "" {
		return nil, apierrors.NewBadRequest("no namespace on request")
	}
	rules := authz.Rules{Incomplete: true}
	var err error
	if resolver, ok := a.Authorizer.(authz.RuleResolver); ok {
		rules, err = resolver.RulesFor(ctx, user, namespace)
	}
	review := &authorizationv1.SelfSubjectRulesReview{Status: authorizationv1.SubjectRulesReviewStatus{
		ResourceRules:    append([]authorizationv1.ResourceRule{}, rules.Resource...),
		NonResourceRules: append([]authorizationv1.NonResourceRule{}, rules.NonResource...),
		Incomplete:       rules.Incomplete,
	}}
	review.SetGroupVersionKind(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectRulesReview"))
	if err != nil {
		review.Status.EvaluationError = err.Error()
	}
	return review, nil
}
