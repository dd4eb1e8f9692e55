package cluster

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/apiserver/health"
	"vigil/kinds"
	"vigil/store"
	"vigil/store/encryption"
)

// atRest is the encryption of what a server keeps in etcd; its keys are nil when there is none.
type atRest struct {
	keys *encryption.Keys
	log  *slog.Logger
}

// newEncryption reads the configuration that config names, if any.
func newEncryption(config APIServerConfig, table *kinds.Table) (atRest, error) {
	if config.EncryptionProviderConfig == "" {
		if config.EncryptionProviderConfigReload {
			return atRest{}, errors.New("--encryption-provider-config-automatic-reload needs --encryption-provider-config")
		}
		return atRest{}, nil
	}
	prefix := config.EtcdPrefix
	if prefix == "" {
		prefix = "/registry"
	}
	resources := map[string]schema.GroupResource{}
	for _, k := range table.All() {
		if !k.Unstored && k.View == nil {
			resources[k.Path] = k.GroupResource()
		}
	}
	keys, err := encryption.Load(encryption.Config{
		File:      config.EncryptionProviderConfig,
		Reload:    config.EncryptionProviderConfigReload,
		Prefix:    strings.TrimSuffix(prefix, "/") + "/",
		Resources: resources,
		Logger:    config.Logger,
	})
	return atRest{keys: keys, log: config.Logger}, err
}

// sealer is what the store is given; an interface without a value when nothing is encrypted.
func (a atRest) sealer() store.Sealer {
	if a.keys == nil {
		return nil
	}
	return a.keys
}

func (a atRest) checks() []health.Check {
	if a.keys == nil {
		return nil
	}
	return []health.Check{{Name: "kms-providers", Func: a.keys.Check}}
}

// run follows changes of the configuration until ctx ends.
func (a atRest) run(ctx context.Context, db *store.Store) error {
	if a.keys == nil {
		return nil
	}
	return a.keys.Run(ctx, func(ctx context.Context) {
		n, err := db.Reseal(ctx)
		if n > 0 && a.log != nil {
			a.log.Info("the API server encrypted objects anew that had become readable", "objects", n)
		}
		if err != nil && a.log != nil {
			a.log.Error("the API server could not encrypt objects anew that have become readable; they stay as they are until they are written", "error", err)
		}
	})
}

func (a atRest) close() {
	if a.keys != nil {
		a.keys.Close()
	}
}
