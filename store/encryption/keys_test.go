package encryption_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/store"
	"vigil/store/encryption"
	"vigil/store/storetest"
)

const (
	secretKey = "/registry/secrets/default/db"
	podKey    = "/registry/pods/default/web"
	plain     = "password: hunter2, long enough for a block or two"
)

// config writes an EncryptionConfiguration and returns its path. rules are "resources -> providers" in YAML.
func config(t *testing.T, rules ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "encryption.yaml")
	write(t, path, rules...)
	return path
}

func write(t *testing.T, path string, rules ...string) {
	t.Helper()
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n"
	for _, r := range rules {
		resources, providers, _ := strings.Cut(r, " -> ")
		text += fmt.Sprintf("- resources: [%s]\n  providers: [%s]\n", resources, providers)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// key is a key of 32 bytes for a configuration.
func key(name string) string {
	secret := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(name[:1]), 32))
	return fmt.Sprintf("{name: %s, secret: %s}", name, secret)
}

func load(t *testing.T, path string, reload bool) *encryption.Keys {
	t.Helper()
	keys, err := encryption.Load(encryption.Config{
		File:   path,
		Reload: reload,
		Prefix: "/registry/",
		Resources: map[string]schema.GroupResource{
			"secrets":        {Resource: "secrets"},
			"configmaps":     {Resource: "configmaps"},
			"pods":           {Resource: "pods"},
			"services/specs": {Resource: "services"},
			"deployments":    {Group: "apps", Resource: "deployments"},
		},
		Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(keys.Close)
	return keys
}

// raw reads what etcd itself holds.
func raw(t *testing.T, target storetest.Target, key string) []byte {
	t.Helper()
	resp, err := target.Etcd.Client().Get(t.Context(), key)
	if err != nil || len(resp.Kvs) != 1 {
		t.Fatalf("read %s from etcd: %v, %d values", key, err, len(resp.Kvs))
	}
	return resp.Kvs[0].Value
}

func open(t *testing.T, target storetest.Target, sealer store.Sealer) *store.Store {
	t.Helper()
	c := target.Config
	c.Sealer = sealer
	return storetest.Open(t, c)
}

func TestProviders(t *testing.T) {
	for _, test := range []struct{ name, provider, prefix string }{
		{"aescbc", "{aescbc: {keys: [" + key("one") + "]}}", "k8s:enc:aescbc:v1:one:"},
		{"aesgcm", "{aesgcm: {keys: [" + key("one") + "]}}", "k8s:enc:aesgcm:v1:one:"},
		{"secretbox", "{secretbox: {keys: [" + key("one") + "]}}", "k8s:enc:secretbox:v1:one:"},
		{"identity", "{identity: {}}", plain},
	} {
		t.Run(test.name, func(t *testing.T) {
			target := storetest.NewTarget(t)
			s := open(t, target, load(t, config(t, "secrets -> "+test.provider), false))
			ctx := t.Context()
			for _, k := range []string{secretKey, podKey} {
				if _, err := s.Create(ctx, k, []byte(plain), 0); err != nil {
					t.Fatal(err)
				}
			}
			stored := raw(t, target, secretKey)
			if !bytes.HasPrefix(stored, []byte(test.prefix)) {
				t.Errorf("etcd holds %q, want the prefix %q", stored, test.prefix)
			}
			if test.name != "identity" && bytes.Contains(stored, []byte("hunter2")) {
				t.Errorf("the secret can be read in etcd: %q", stored)
			}
			if pod := raw(t, target, podKey); string(pod) != plain {
				t.Errorf("a resource without configuration is stored as %q", pod)
			}
			everyWayReads(t, s, secretKey, plain)
		})
	}
}

// everyWayReads checks Get, List, LoadAll, a lost compare and the feed.
func everyWayReads(t *testing.T, s *store.Store, key, want string) {
	t.Helper()
	ctx := t.Context()
	check := func(way string, value []byte, err error) {
		t.Helper()
		if err != nil || string(value) != want {
			t.Errorf("%s: %q, %v", way, value, err)
		}
	}
	kv, err := s.Get(ctx, key)
	check("get", kv.Value, errors.Join(err, kv.Err))
	list, err := s.List(ctx, key[:strings.LastIndexByte(key, '/')+1], store.ListOptions{})
	if err != nil || len(list.KVs) != 1 {
		t.Fatalf("list: %d values, %v", len(list.KVs), err)
	}
	check("list", list.KVs[0].Value, list.KVs[0].Err)
	var all []store.KV
	var mu sync.Mutex
	rev, err := s.LoadAll(ctx, key, 0, func(kvs []store.KV) error {
		mu.Lock()
		defer mu.Unlock()
		for _, kv := range kvs {
			kv.Value = bytes.Clone(kv.Value)
			all = append(all, kv)
		}
		return nil
	})
	if err != nil || len(all) != 1 {
		t.Fatalf("load: %d values, %v", len(all), err)
	}
	check("load", all[0].Value, all[0].Err)
	var conflict *store.ConflictError
	if _, err := s.Update(ctx, key, []byte("x"), 1, 0); !errors.As(err, &conflict) {
		t.Fatalf("update of another revision: %v", err)
	}
	check("conflict", conflict.Current.Value, conflict.Current.Err)

	done := errors.New("seen")
	if _, err := s.Update(ctx, key, []byte(want), kv.ModRev, 0); err != nil {
		t.Fatal(err)
	}
	err = s.Feed(ctx, rev, func(b store.Batch) error {
		for _, e := range b.Events {
			check("feed", e.Value, e.Err)
			return done
		}
		return nil
	})
	if !errors.Is(err, done) {
		t.Errorf("feed: %v", err)
	}
}

func TestWildcards(t *testing.T) {
	provider := func(name string) string { return "{aesgcm: {keys: [" + key(name) + "]}}" }
	keys := load(t, config(t,
		"secrets -> {identity: {}}",
		"'*.apps' -> "+provider("apps"),
		"'*.' -> "+provider("core"),
		"'*.*' -> "+provider("rest")), false)
	for _, test := range []struct{ key, by string }{
		{"/registry/secrets/default/db", ""},
		{"/registry/deployments/default/web", "apps"},
		{"/registry/configmaps/default/c", "core"},
		{"/registry/services/specs/default/s", "core"},
		{"/registry/example.com/widgets/default/w", "rest"},
		{"/registry/ranges/servicenodeports", ""},
		{"/registry/masterleases/10.0.0.1", ""},
	} {
		stored, err := keys.Seal(t.Context(), test.key, []byte(plain))
		if err != nil {
			t.Fatal(err)
		}
		want := plain
		if test.by != "" {
			want = "k8s:enc:aesgcm:v1:" + test.by + ":"
		}
		if !strings.HasPrefix(string(stored), want) {
			t.Errorf("%s is stored as %.60q, want prefix %q", test.key, stored, want)
		}
		value, stale, err := keys.Open(t.Context(), test.key, stored)
		if err != nil || stale || string(value) != plain {
			t.Errorf("%s: read back %q, stale %t, %v", test.key, value, stale, err)
		}
	}
}

func TestAssociatedData(t *testing.T) {
	keys := load(t, config(t, "secrets -> {aesgcm: {keys: ["+key("one")+"]}}"), false)
	stored, err := keys.Seal(t.Context(), secretKey, []byte(plain))
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := keys.Open(t.Context(), secretKey+"-other", stored); err == nil {
		t.Error("a value that was copied to another key can be read")
	}
}

func TestRotation(t *testing.T) {
	target := storetest.NewTarget(t)
	provider := func(keys ...string) string { return "{aescbc: {keys: [" + strings.Join(keys, ", ") + "]}}" }
	old, both, fresh := provider(key("one")), provider(key("two"), key("one")), provider(key("two"))

	first := open(t, target, load(t, config(t, "secrets -> "+old), false))
	if _, err := first.Create(t.Context(), secretKey, []byte(plain), 0); err != nil {
		t.Fatal(err)
	}
	second := open(t, target, load(t, config(t, "secrets -> "+both), false))
	kv, err := second.Get(t.Context(), secretKey)
	if err != nil || kv.Err != nil || !kv.Stale || string(kv.Value) != plain {
		t.Fatalf("with both keys: %+v, %v", kv, err)
	}
	if _, err := second.Update(t.Context(), secretKey, kv.Value, kv.ModRev, 0); err != nil {
		t.Fatal(err)
	}
	if stored := raw(t, target, secretKey); !bytes.HasPrefix(stored, []byte("k8s:enc:aescbc:v1:two:")) {
		t.Errorf("after the rewrite etcd holds %.40q", stored)
	}
	third := open(t, target, load(t, config(t, "secrets -> "+fresh), false))
	if kv, err = third.Get(t.Context(), secretKey); err != nil || kv.Err != nil || kv.Stale || string(kv.Value) != plain {
		t.Errorf("without the old key: %+v, %v", kv, err)
	}
	if kv, err = first.Get(t.Context(), secretKey); err != nil || !errors.Is(kv.Err, store.ErrSealed) || bytes.Contains(kv.Value, []byte("hunter2")) {
		t.Errorf("without the new key: %+v, %v", kv, err)
	}
	bare := open(t, target, nil)
	if kv, err = bare.Get(t.Context(), secretKey); err != nil || !errors.Is(kv.Err, store.ErrSealed) {
		t.Errorf("without any configuration: %+v, %v", kv, err)
	}
}

// What could not be read becomes readable, and is seen by the feed, when the file gets the key.
func TestReload(t *testing.T) {
	target := storetest.NewTarget(t)
	other := open(t, target, load(t, config(t, "secrets -> {secretbox: {keys: ["+key("two")+"]}}"), false))

	path := config(t, "secrets -> {aesgcm: {keys: ["+key("one")+"]}}")
	keys := load(t, path, true)
	keys.PollEvery(time.Millisecond)
	s := open(t, target, keys)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 2)
	resealed := make(chan error)
	go func() {
		done <- keys.Run(ctx, func(ctx context.Context) {
			_, err := s.Reseal(ctx)
			resealed <- err
		})
	}()
	seen := make(chan store.Event, 10)
	go func() {
		done <- s.Feed(ctx, 1, func(b store.Batch) error {
			for _, e := range b.Events {
				seen <- e
			}
			return nil
		})
	}()
	if _, err := other.Create(t.Context(), secretKey, []byte(plain), time.Hour); err != nil {
		t.Fatal(err)
	}
	if e := <-seen; !errors.Is(e.Err, store.ErrSealed) {
		t.Fatalf("the value of a foreign key arrives as %q, %v", e.Value, e.Err)
	}
	write(t, path, "secrets -> {aesgcm: {keys: ["+key("one")+"]}}, {secretbox: {keys: ["+key("two")+"]}}")
	if e := <-seen; e.Err != nil || string(e.Value) != plain {
		t.Errorf("with the key it arrives as %q, %v", e.Value, e.Err)
	}
	if err := <-resealed; err != nil {
		t.Errorf("reseal: %v", err)
	}
	if stored := raw(t, target, secretKey); !bytes.HasPrefix(stored, []byte("k8s:enc:aesgcm:v1:one:")) {
		t.Errorf("etcd holds %.40q", stored)
	}
	resp, err := target.Etcd.Client().Get(t.Context(), secretKey)
	if err != nil || resp.Kvs[0].Lease == 0 {
		t.Errorf("the lease of the value is gone: %v", err)
	}
	cancel()
	for range 2 {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	}
}

// A file that is wrong changes nothing.
func TestReload_Wrong(t *testing.T) {
	path := config(t, "secrets -> {aesgcm: {keys: ["+key("one")+"]}}")
	keys := load(t, path, true)
	if err := os.WriteFile(path, []byte("kind: Nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if changed, err := keys.Reload(t.Context()); changed || err == nil {
		t.Errorf("reload of nonsense: %t, %v", changed, err)
	}
	stored, err := keys.Seal(t.Context(), secretKey, []byte(plain))
	if err != nil || !bytes.HasPrefix(stored, []byte("k8s:enc:aesgcm:v1:one:")) {
		t.Errorf("afterwards: %.40q, %v", stored, err)
	}
}

func TestLoad_Refuses(t *testing.T) {
	for name, rule := range map[string]string{
		"short key":      "secrets -> {aescbc: {keys: [{name: a, secret: c2hvcnQ=}]}}",
		"no provider":    "secrets -> {}",
		"masked":         "'*.*' -> {identity: {}}",
		"kms v1":         "secrets -> {kms: {apiVersion: v1, name: a, endpoint: 'unix:///x'}}",
		"unknown fields": "secrets -> {rot13: {}}",
	} {
		t.Run(name, func(t *testing.T) {
			rules := []string{rule}
			if name == "masked" {
				rules = append(rules, "secrets -> {identity: {}}")
			}
			if _, err := encryption.Load(encryption.Config{File: config(t, rules...), Prefix: "/registry/"}); err == nil {
				t.Error("accepted")
			}
		})
	}
}
