package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"vigil/kubelet/internal/expand"
)

// Result is the answer to a probe.
type Result uint8

// The answers. A Warning counts as a success that people should know of. With Unknown nothing was learned.
const (
	Unknown Result = iota
	Success
	Warning
	Failure
)

func (r Result) String() string {
	return [...]string{"unknown", "success", "warning", "failure"}[r]
}

// ErrTimeout is what Target.Exec fails with for a command that takes too long.
var ErrTimeout = errors.New("command timed out")

// outputLimit is how much of an answer is read and shown, in bytes.
const outputLimit = 10 << 10

// Target is the container that is asked.
type Target struct {
	Container *corev1.Container
	PodIP     string
	// Exec runs a command in the container and returns its exit code and the first bytes of what it printed. timeout 0 is none.
	Exec func(ctx context.Context, command []string, timeout time.Duration, limit int) (output []byte, exitCode int, err error)
}

// Client asks. It is used by any number of goroutines.
type Client struct {
	version   string // "1.37"
	transport *transport
}

// New makes a client that says it is kube-probe of this version: "v1.37.2".
func New(version string) *Client {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	return &Client{
		version:   strings.Join(parts[:min(2, len(parts))], "."),
		transport: &transport{dialer: dialer(), tls: &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"http/1.1"}}},
	}
}

// dialer makes connections whose sockets are gone a second after they are closed, not a minute: thousands of probes would use up
// the ports of the node.
func dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: false},
		KeepAlive:       -1,
		Control: func(_, _ string, c syscall.RawConn) error {
			var failed error
			err := c.Control(func(socket uintptr) { failed = linger(socket, 1) })
			return errors.Join(err, failed)
		},
	}
}

// Do asks once. output is for people. An error says that the question could not be asked or the answer not be read; the result
// is then what to call the state in which it leaves the probe. What the container says has an end in both, in 10 KiB.
func (c *Client) Do(ctx context.Context, how *corev1.ProbeHandler, timeout time.Duration, target Target) (result Result, output string, err error) {
	result, output, err = c.ask(ctx, how, timeout, target)
	return result, beginning(output), err
}

// beginning is as much of a text of a container's as is shown. It has what people can read in it.
func beginning(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), outputLimit)], "")
}

func (c *Client) ask(ctx context.Context, how *corev1.ProbeHandler, timeout time.Duration, target Target) (result Result, output string, err error) {
	switch {
	case how.Exec != nil:
		return c.exec(ctx, how.Exec, timeout, target)
	case how.HTTPGet != nil:
		return c.http(ctx, how.HTTPGet, timeout, target)
	case how.TCPSocket != nil:
		return c.tcp(ctx, how.TCPSocket, timeout, target)
	case how.GRPC != nil:
		return c.grpc(ctx, how.GRPC, timeout, target)
	}
	return Unknown, "", fmt.Errorf("missing probe handler for container %s", target.Container.Name)
}

func (c *Client) exec(ctx context.Context, action *corev1.ExecAction, timeout time.Duration, target Target) (Result, string, error) {
	command, err := staticCommand(action.Command, target.Container)
	if err != nil {
		return Unknown, "", err
	}
	output, code, err := target.Exec(ctx, command, timeout, outputLimit)
	text := string(output)
	switch {
	case errors.Is(err, ErrTimeout):
		return Failure, fmt.Sprintf("command %q timed out", strings.Join(action.Command, " ")), nil
	case err != nil:
		return Unknown, "", err
	case code != 0:
		return Failure, text, nil
	}
	return Success, text, nil
}

// staticCommand expands references to variables that the container's spec itself gives a value. It fails when that makes more than a process can be
// given.
func staticCommand(command []string, container *corev1.Container) ([]string, error) {
	if !slices.ContainsFunc(command, func(word string) bool { return strings.Contains(word, "$") }) {
		return command, nil
	}
	values := make(map[string]string, len(container.Env))
	for _, v := range slices.Backward(container.Env) { // the first of a name counts
		if v.ValueFrom == nil {
			values[v.Name] = v.Value
		}
	}
	return expand.All(command, func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	})
}

func (c *Client) tcp(ctx context.Context, action *corev1.TCPSocketAction, timeout time.Duration, target Target) (Result, string, error) {
	port, err := Port(action.Port, target.Container)
	if err != nil {
		return Unknown, "", err
	}
	host := action.Host
	if host == "" {
		host = target.PodIP
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := c.transport.dialer.DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return Failure, err.Error(), nil
	}
	_ = conn.Close() // it was opened: that is the answer
	return Success, "", nil
}

func (c *Client) http(ctx context.Context, action *corev1.HTTPGetAction, timeout time.Duration, target Target) (Result, string, error) {
	request, err := c.request(ctx, action, target, "probe")
	if err != nil {
		return Unknown, "", err
	}
	client := http.Client{Transport: c.transport, Timeout: timeout, CheckRedirect: sameHost}
	response, err := client.Do(request)
	if err != nil {
		return Failure, err.Error(), nil
	}
	defer func() { _ = response.Body.Close() }()
	body, err := readSome(response.Body)
	switch {
	case err != nil:
		return Failure, "", err
	case response.StatusCode >= http.StatusMultipleChoices && response.StatusCode < http.StatusBadRequest:
		return Warning, "Probe terminated redirects, Response body: " + body, nil
	case response.StatusCode >= http.StatusOK && response.StatusCode < http.StatusBadRequest:
		return Success, body, nil
	}
	return Failure, "HTTP probe failed with statuscode: " + strconv.Itoa(response.StatusCode), nil
}

// Port finds the port that an action names: a number, or the name of a port of the container.
func Port(port intstr.IntOrString, container *corev1.Container) (int, error) {
	number := int(port.IntVal)
	if port.Type == intstr.String {
		number = -1
		for _, p := range container.Ports {
			if p.Name == port.StrVal {
				number = int(p.ContainerPort)
			}
		}
		if number < 0 {
			var err error
			if number, err = strconv.Atoi(port.StrVal); err != nil {
				return 0, err
			}
		}
	}
	if number <= 0 || number > 65535 {
		return 0, fmt.Errorf("invalid port number: %d", number)
	}
	return number, nil
}
