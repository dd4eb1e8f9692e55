package audit

import (
	"context"
	"maps"

	"k8s.io/apimachinery/pkg/runtime"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	upstream "k8s.io/apiserver/pkg/audit"
)

// Truncate bounds what a backend gets.
type Truncate struct {
	Enabled      bool
	MaxEventSize int64 // bytes of an event beyond which its objects are left out, default 100 KiB; what is still too large is lost
	MaxBatchSize int64 // bytes of a batch, default 10 MiB
}

func (t Truncate) withDefaults() Truncate {
	if t.MaxEventSize == 0 {
		t.MaxEventSize = 100 << 10
	}
	if t.MaxBatchSize == 0 {
		t.MaxBatchSize = 10 << 20
	}
	return t
}

// truncating keeps events and batches for a backend small.
type truncating struct {
	backend
	limits Truncate
	lost   func(n int)
}

func (t *truncating) write(ctx context.Context, events []auditapi.Event) error {
	var batch []auditapi.Event
	var batchBytes int64
	for i := range events {
		e := events[i]
		size, err := encodedBytes(&e)
		if err != nil {
			return err
		}
		if size > t.limits.MaxEventSize {
			e.RequestObject, e.ResponseObject = nil, nil
			if e.Annotations = maps.Clone(e.Annotations); e.Annotations == nil {
				e.Annotations = map[string]string{}
			}
			e.Annotations["audit.k8s.io/truncated"] = "true"
			if size, err = encodedBytes(&e); err != nil {
				return err
			}
		}
		if size > t.limits.MaxEventSize {
			t.lost(1)
			continue
		}
		if len(batch) > 0 && batchBytes+size > t.limits.MaxBatchSize {
			if err := t.backend.write(ctx, batch); err != nil {
				return err
			}
			batch, batchBytes = nil, 0
		}
		batch, batchBytes = append(batch, e), batchBytes+size
	}
	if len(batch) == 0 {
		return nil
	}
	return t.backend.write(ctx, batch)
}

func encodedBytes(e *auditapi.Event) (int64, error) {
	out, err := runtime.Encode(upstream.Codecs.LegacyCodec(auditv1.SchemeGroupVersion), e)
	return int64(len(out)), err
}
