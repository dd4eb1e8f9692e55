package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"vigil/apiserver/accessreview"
	"vigil/apiserver/authn"
	"vigil/apiserver/serviceaccount"
	"vigil/apiserver/write"
	"vigil/internal/accounttoken"
	"vigil/kinds"
	"vigil/object"
	"vigil/store"
)

// makeTokens prepares the issuing and checking of service account tokens.
func (s *Server) makeTokens() error {
	config := s.config.Tokens
	config.Objects, config.LastUsed, config.Registerer = objects{s}, s.markTokenUsed, s.config.Registerer
	var err error
	s.tokens, err = serviceaccount.New(config)
	return err
}

// markTokenUsed writes into a Secret on which day its token was last used. The request that used it goes on without that.
func (s *Server) markTokenUsed(ctx context.Context, secret *corev1.Secret, day string) bool {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": secret.UID, "labels": map[string]string{accounttoken.LastUsedLabel: day},
	}})
	if err == nil {
		_, err = s.writer.Patch(ctx, &write.Request{
			Kind: s.Kinds().ByResource(corev1.SchemeGroupVersion.WithResource("secrets")), Namespace: secret.Namespace, Name: secret.Name,
			ContentType: string(types.MergePatchType), Body: patch, UserAgent: "vigil-apiserver",
			User: &authn.User{Name: "system:apiserver", Groups: []string{authn.GroupMasters, authn.GroupAuthenticated}},
		})
	}
	if err != nil {
		s.log.Warn("the API server could not write into a Secret that its token is used, and tries again with the next request that uses it",
			"namespace", secret.Namespace, "secret", secret.Name, "error", err)
	}
	return err == nil
}

// hooks are those of the configuration, and those of what the server itself answers.
func (s *Server) hooks() map[schema.GroupResource]write.Hook {
	hooks := accessreview.Hooks(accessreview.Config{Authorizer: s.authz, Tokens: s.authn})
	maps.Copy(hooks, s.config.WriteHooks)
	if s.tokens.Issuer != nil {
		accounts := schema.GroupResource{Resource: "serviceaccounts"}
		hook := hooks[accounts]
		post := map[string]write.PostFunc{"token": s.tokens.Issuer.Post}
		maps.Copy(post, hook.Post)
		hook.Post = post
		hooks[accounts] = hook
	}
	return hooks
}

// objects finds single objects of the core group: in the cache and, since that may lag behind, in etcd.
type objects struct{ s *Server }

func (o objects) Find(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error) {
	rt := o.s.served.Load().stored[resource]
	if rt == nil {
		return nil, apierrors.NewNotFound(resource, name)
	}
	k := rt.Kind
	key := o.key(k, namespace, name)
	v, found := rt.Cache.Get(key)
	if !found {
		kv, err := o.s.store.Get(ctx, key)
		if errors.Is(err, store.ErrNotFound) {
			return nil, apierrors.NewNotFound(resource, name)
		}
		if err != nil {
			return nil, fmt.Errorf("find %s %s: %w", resource, name, err)
		}
		if v, err = object.NewVersion(k.Type, key, kv.ModRev, kv.Value); err != nil {
			return nil, err
		}
	}
	obj, err := v.Decode()
	if err != nil {
		return nil, err
	}
	return obj.(kinds.Object), nil
}

// Newest is the cached version itself.
func (o objects) Newest(resource schema.GroupResource, namespace, name string) any {
	rt := o.s.served.Load().stored[resource]
	if rt == nil {
		return nil
	}
	if v, found := rt.Cache.Get(o.key(rt.Kind, namespace, name)); found {
		return v
	}
	return nil
}

// key is where an object is stored.
func (o objects) key(k *kinds.Kind, namespace, name string) string {
	if k.Namespaced {
		return o.s.prefix + k.Path + "/" + namespace + "/" + name
	}
	return o.s.prefix + k.Path + "/" + name
}
