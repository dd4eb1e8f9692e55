package encryption

import (
	"context"
	"time"

	"k8s.io/apiserver/pkg/server/options/encryptionconfig"
)

// Run follows changes of the file until ctx ends, and calls changed after each that was taken over. A file that is wrong,
// or whose KMS plug-ins do not answer, leaves everything as it is, and is tried again.
func (k *Keys) Run(ctx context.Context, changed func(context.Context)) error {
	if !k.config.Reload {
		<-ctx.Done()
		return ctx.Err()
	}
	ticker := time.NewTicker(k.poll)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
		ok, err := k.reload(ctx)
		switch {
		case err != nil:
			k.config.Logger.Error("the API server cannot use the changed encryption configuration; the one before stays in force until the file is mended", "file", k.config.File, "error", err)
		case ok:
			k.config.Logger.Info("the API server has taken over the changed encryption configuration", "file", k.config.File, "hash", k.current.Load().hash)
			changed(ctx)
		}
	}
}

// reload takes the file over if it has changed.
func (k *Keys) reload(ctx context.Context) (changed bool, err error) {
	old := k.current.Load()
	hash, err := encryptionconfig.GetEncryptionConfigHash(k.config.File)
	if err != nil || hash == old.hash {
		return false, err
	}
	g, err := k.load()
	if err != nil {
		return false, err
	}
	if err := g.check(ctx); err != nil {
		g.cancel()
		return false, err
	}
	k.current.Store(g)
	time.AfterFunc(old.grace, old.cancel) // calls under way end first
	return true, nil
}
