package accessreview

import (
	"context"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/authn"
	"vigil/apiserver/authz"
	"vigil/apiserver/write"
	"vigil/kinds"
)

// Config says who knows the answers.
type Config struct {
	Authorizer authz.Authorizer
	// Tokens knows bearer tokens. Nil: there are none.
	Tokens authn.Token
	// Now is the clock, time.Now when nil.
	Now func() time.Time
}

// answers answers reviews.
type answers struct{ Config }

// Hooks returns the hooks of all review kinds.
func Hooks(c Config) map[schema.GroupResource]write.Hook {
	if c.Now == nil {
		c.Now = time.Now
	}
	a := answers{c}
	hooks := map[schema.GroupResource]write.Hook{}
	post := func(group, resource string, f func(ctx context.Context, user *authn.User, body runtime.Object) (runtime.Object, error)) {
		hooks[schema.GroupResource{Group: group, Resource: resource}] = write.Hook{Post: map[string]write.PostFunc{
			"": func(ctx context.Context, r *write.Request, _ kinds.Object, body runtime.Object) (runtime.Object, error) {
				return f(ctx, r.User, body)
			},
		}}
	}
	post(authenticationv1.GroupName, "tokenreviews", a.token)
	post(authenticationv1.GroupName, "selfsubjectreviews", a.self)
	post(authorizationv1.GroupName, "subjectaccessreviews", a.access)
	post(authorizationv1.GroupName, "localsubjectaccessreviews", a.localAccess)
	post(authorizationv1.GroupName, "selfsubjectaccessreviews", a.selfAccess)
	post(authorizationv1.GroupName, "selfsubjectrulesreviews", a.rules)
	return hooks
}
