package probe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// HookError says that a lifecycle hook has failed, in upstream's words.
type HookError struct {
	Message string // names the container and the pod
	Err     error
}

func (e *HookError) Error() string { return e.Message }
func (e *HookError) Unwrap() error { return e.Err }

// failedHook is a HookError whose message has an end, as long as what a container says may be.
func failedHook(err error, format string, args ...any) *HookError {
	return &HookError{beginning(fmt.Sprintf(format, args...)), err}
}

// Hook runs a postStart or preStop hook until it ends or ctx does. A request counts as done with any answer. A request over TLS
// to a server that speaks plain HTTP is sent again without; fallback says so, for the event LifecycleHTTPFallback. It fails with
// a *HookError.
func (c *Client) Hook(ctx context.Context, pod *corev1.Pod, hook *corev1.LifecycleHandler, target Target) (fallback string, err error) {
	name := fmt.Sprintf("for Container %q in Pod %q failed - error: ", target.Container.Name, fmt.Sprintf("%s_%s(%s)", pod.Name, pod.Namespace, pod.UID))
	switch {
	case hook.Exec != nil:
		output, code, err := target.Exec(ctx, hook.Exec.Command, 0, outputLimit)
		if err == nil && code != 0 {
			err = fmt.Errorf("command '%s' exited with %d: %s", strings.Join(hook.Exec.Command, " "), code, output)
		}
		if err != nil {
			return "", failedHook(err, "Exec lifecycle hook (%v) %s%v, message: %q", hook.Exec.Command, name, err, output)
		}
	case hook.HTTPGet != nil:
		fallback, err := c.httpHook(ctx, hook.HTTPGet, target)
		if err != nil {
			return "", failedHook(err, "HTTP lifecycle hook (%s) %s%v", hook.HTTPGet.Path, name, err)
		}
		return fallback, nil
	case hook.Sleep != nil:
		timer := time.NewTimer(time.Duration(hook.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			err := errors.New("container terminated before sleep hook finished")
			return "", failedHook(err, "Sleep lifecycle hook (%d) %s%v", hook.Sleep.Seconds, name, err)
		case <-timer.C:
		}
	default:
		err := fmt.Errorf("invalid handler: %v", hook)
		return "", failedHook(err, "Cannot run handler: %v", err)
	}
	return "", nil
}

func (c *Client) httpHook(ctx context.Context, action *corev1.HTTPGetAction, target Target) (fallback string, err error) {
	if action.Host == "" && target.PodIP == "" {
		return "", errors.New("failed to find networking container: the pod has no address")
	}
	if action.Port.String() == "" {
		action = action.DeepCopy()
		action.Port.StrVal = "80"
	}
	request, err := c.request(ctx, action, target, "lifecycle")
	if err != nil {
		return "", err
	}
	err = c.send(request)
	if err == nil || !strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
		return "", err
	}
	request = request.Clone(ctx)
	request.URL.Scheme = "http"
	request.Header.Del("Authorization") // it was meant for TLS
	if plain := c.send(request); plain != nil {
		return "", err
	}
	return fmt.Sprintf("request to HTTPS lifecycle hook %s got HTTP response, retry with HTTP succeeded", request.URL.Host), nil
}

func (c *Client) send(request *http.Request) error {
	client := http.Client{Transport: c.transport, CheckRedirect: sameHost}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_, _ = readSome(response.Body)
	return response.Body.Close()
}
