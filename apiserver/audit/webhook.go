package audit

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	upstream "k8s.io/apiserver/pkg/audit"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// WebhookConfig says how events are sent to a server elsewhere.
type WebhookConfig struct {
	ConfigFile     string        // --audit-webhook-config-file: a kubeconfig that names it
	InitialBackoff time.Duration // --audit-webhook-initial-backoff: first wait before another attempt, default 10 s
	Queue          Queue
}

// webhook POSTs EventLists.
type webhook struct {
	url     string
	client  *http.Client
	backoff time.Duration
}

// webhookAttempts is how often a batch is tried to be delivered; each wait is half as long again as the one before.
const webhookAttempts = 5

func newWebhook(config WebhookConfig) (*webhook, error) {
	c, err := clientcmd.BuildConfigFromFlags("", config.ConfigFile)
	if err != nil {
		return nil, err
	}
	c.QPS = -1
	if c.Timeout == 0 {
		c.Timeout = 30 * time.Second
	}
	client, err := rest.HTTPClientFor(c)
	if err != nil {
		return nil, err
	}
	w := &webhook{url: c.Host, client: client, backoff: config.InitialBackoff}
	if w.backoff == 0 {
		w.backoff = 10 * time.Second
	}
	return w, nil
}

func (w *webhook) write(ctx context.Context, events []auditapi.Event) error {
	body, err := runtime.Encode(upstream.Codecs.LegacyCodec(auditv1.SchemeGroupVersion), &auditapi.EventList{Items: events})
	if err != nil {
		return err
	}
	wait := w.backoff
	for attempt := 1; ; attempt++ {
		if err = w.post(ctx, body); err == nil || attempt == webhookAttempts {
			return err
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return err
		}
		wait += wait / 2
	}
}

func (w *webhook) post(ctx context.Context, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := w.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10)) // so that the connection can be used again
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("%s answered %s", w.url, resp.Status)
	}
	return nil
}

func (w *webhook) close() error {
	w.client.CloseIdleConnections()
	return nil
}
