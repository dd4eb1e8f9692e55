package encryption

import (
	"context"
	"time"
)

// PollEvery lets a test wait less for Run to notice a changed file.
func (k *Keys) PollEvery(d time.Duration) { k.poll = d }

// Reload looks at the file once.
func (k *Keys) Reload(ctx context.Context) (bool, error) { return k.reload(ctx) }
