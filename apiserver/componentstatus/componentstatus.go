// Package componentstatus asks the control plane's components how they are, for `kubectl get componentstatuses`. As
// upstream it looks where the components usually are, on this machine: one that runs elsewhere shows as unhealthy.
package componentstatus

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/panics"
	"vigil/kinds"
)

// patience is how long a component may take to answer.
const patience = 20 * time.Second

// Component is one to be asked.
type Component struct {
	Name string
	// Ask returns what the component says of itself when it is well, else why it is not.
	Ask func(ctx context.Context) (message string, err error)
}

// Port is a component whose /healthz is at a port of this machine. Its certificate is not checked: it is often its own.
func Port(name string, port int) Component {
	client := &http.Client{Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // says nothing but ok
		DisableKeepAlives: true,
	}}
	url := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + "/healthz"
	return Component{Name: name, Ask: func(ctx context.Context) (string, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return "", err
		}
		resp, err := client.Do(req)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<12))
		if err != nil {
			return "", err
		}
		if resp.StatusCode != http.StatusOK {
			return "", fmt.Errorf("unhealthy http status code received: %d %s", resp.StatusCode, body)
		}
		return string(body), nil
	}}
}

// Ask asks all components at once and returns their statuses in the order given.
func Ask(ctx context.Context, components []Component) []kinds.Object {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	statuses := make([]kinds.Object, len(components))
	var group sync.WaitGroup
	for i, c := range components {
		group.Go(func() {
			condition := corev1.ComponentCondition{Type: corev1.ComponentHealthy, Status: corev1.ConditionTrue}
			message, err := panics.Call(nil, panics.Background, func() (string, error) { return c.Ask(ctx) })
			if condition.Message = message; err != nil {
				condition.Status, condition.Message = corev1.ConditionFalse, err.Error()
			}
			statuses[i] = &corev1.ComponentStatus{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Conditions: []corev1.ComponentCondition{condition}}
		})
	}
	group.Wait()
	return statuses
}
