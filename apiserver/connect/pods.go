package connect

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/util/proxy"
	"k8s.io/streaming/pkg/httpstream/wsstream"

	"vigil/kinds/podoptions"
)

// exec runs a command in a container.
func (c *Connector) exec(w http.ResponseWriter, req *http.Request, r *Request) error {
	opts := podoptions.Exec(req.URL.Query())
	query := streams(opts.Stdin, opts.Stdout, opts.Stderr, opts.TTY)
	for _, word := range opts.Command {
		query.Add("command", word)
	}
	return c.session(w, req, r, opts, opts.Container, query, proxy.Options{Stdin: opts.Stdin, Stdout: opts.Stdout, Stderr: opts.Stderr, Tty: opts.TTY})
}

// attach connects to the main process of a container.
func (c *Connector) attach(w http.ResponseWriter, req *http.Request, r *Request) error {
	opts := podoptions.Attach(req.URL.Query())
	query := streams(opts.Stdin, opts.Stdout, opts.Stderr, opts.TTY)
	return c.session(w, req, r, opts, opts.Container, query, proxy.Options{Stdin: opts.Stdin, Stdout: opts.Stdout, Stderr: opts.Stderr, Tty: opts.TTY})
}

// streams are the parameters that kubelets know streams by.
func streams(stdin, stdout, stderr, tty bool) url.Values {
	query := url.Values{}
	for name, wanted := range map[string]bool{
		corev1.ExecStdinParam: stdin, corev1.ExecStdoutParam: stdout, corev1.ExecStderrParam: stderr, corev1.ExecTTYParam: tty,
	} {
		if wanted {
			query.Set(name, "1")
		}
	}
	return query
}

// session is an exec or an attach.
func (c *Connector) session(w http.ResponseWriter, req *http.Request, r *Request, opts runtime.Object, container string, query url.Values, wanted proxy.Options) error {
	pod, err := c.mayUpgrade(req, r, opts)
	if err != nil {
		return err
	}
	if container, err = chooseContainer(pod, container); err != nil {
		return err
	}
	location, k, err := c.location(req.Context(), pod, r.Subresource, "/"+container, query)
	if err != nil {
		return err
	}
	location, transport := upgrading(location, c.kubelets.transport(k, false))
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(req) {
		proxy.NewStreamTranslatorHandler(location, transport, 0, wanted).ServeHTTP(w, req)
		return nil
	}
	c.forward(location, transport, true).ServeHTTP(w, req)
	return nil
}

// portForward connects to ports of a pod.
func (c *Connector) portForward(w http.ResponseWriter, req *http.Request, r *Request) error {
	opts, err := podoptions.PortForward(req.URL.Query())
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	pod, err := c.mayUpgrade(req, r, opts)
	if err != nil {
		return err
	}
	query := url.Values{}
	if len(opts.Ports) > 0 {
		ports := make([]string, len(opts.Ports))
		for i, port := range opts.Ports {
			ports[i] = strconv.Itoa(int(port))
		}
		query.Set(corev1.PortHeader, strings.Join(ports, ","))
	}
	location, k, err := c.location(req.Context(), pod, "portForward", "", query)
	if err != nil {
		return err
	}
	location, transport := upgrading(location, c.kubelets.transport(k, false))
	handler := c.forward(location, transport, true)
	if wsstream.IsWebSocketRequestWithTunnelingProtocol(req) {
		handler = proxy.NewTunnelingHandler(handler)
	}
	handler.ServeHTTP(w, req)
	return nil
}

// mayUpgrade finds the pod that a request wants to reach into. A WebSocket is opened by a GET, which "get" allows: what it is for is more
// than reading, so "create" is asked for in any case (kubernetes/kubernetes#133515).
func (c *Connector) mayUpgrade(req *http.Request, r *Request, opts runtime.Object) (*corev1.Pod, error) {
	if err := r.Admit(req.Context(), opts); err != nil {
		return nil, err
	}
	if r.Verb != "create" {
		if err := r.Authorize(req.Context(), "create"); err != nil {
			return nil, err
		}
	}
	return c.pod(req.Context(), r, r.Name)
}

// location is where the kubelet of a pod's node serves the pod.
func (c *Connector) location(ctx context.Context, pod *corev1.Pod, path, rest string, query url.Values) (*url.URL, kubelet, error) {
	if pod.Spec.NodeName == "" {
		return nil, kubelet{}, apierrors.NewBadRequest(fmt.Sprintf("pod %s does not have a host assigned", pod.Name))
	}
	k, err := c.kubelet(ctx, pod.Spec.NodeName)
	if err != nil {
		return nil, kubelet{}, err
	}
	return k.url("/"+path+"/"+pod.Namespace+"/"+pod.Name+rest, query), k, nil
}

// chooseContainer checks the name of a container. "" is the pod's only one.
func chooseContainer(pod *corev1.Pod, name string) (string, error) {
	if name == "" && len(pod.Spec.Containers) == 1 {
		return pod.Spec.Containers[0].Name, nil
	}
	if name == "" && len(pod.Spec.Containers) == 0 {
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s", pod.Name))
	}
	var names []string
	for i := range pod.Spec.InitContainers {
		names = append(names, pod.Spec.InitContainers[i].Name)
	}
	for i := range pod.Spec.Containers {
		names = append(names, pod.Spec.Containers[i].Name)
	}
	for i := range pod.Spec.EphemeralContainers {
		names = append(names, pod.Spec.EphemeralContainers[i].Name)
	}
	if name == "" {
		return "", apierrors.NewBadRequest(fmt.Sprintf("a container name must be specified for pod %s, choose one of: %s", pod.Name, names))
	}
	for _, have := range names {
		if have == name {
			return name, nil
		}
	}
	return "", apierrors.NewBadRequest(fmt.Sprintf("container %s is not valid for pod %s", name, pod.Name))
}
