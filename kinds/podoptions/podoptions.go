// Package podoptions reads the queries of requests that reach into pods (exec, attach, portforward, log) as the options they
// stand for, with upstream's conversions (apimachinery's pkg/runtime/conversion.go), defaults and validation. API server and
// kubelet read them alike.
//
// A flag that is there counts as set unless it says false or 0. What cannot be read is an error for a 400; what can be read and
// is not allowed is for the Validate function and a 422.
package podoptions

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Exec reads PodExecOptions.
func Exec(query url.Values) *corev1.PodExecOptions {
	return &corev1.PodExecOptions{
		Stdin: flag(query, "stdin"), Stdout: flag(query, "stdout"), Stderr: flag(query, "stderr"), TTY: flag(query, "tty"),
		Container: query.Get("container"), Command: query["command"],
	}
}

// Attach reads PodAttachOptions.
func Attach(query url.Values) *corev1.PodAttachOptions {
	return &corev1.PodAttachOptions{
		Stdin: flag(query, "stdin"), Stdout: flag(query, "stdout"), Stderr: flag(query, "stderr"), TTY: flag(query, "tty"),
		Container: query.Get("container"),
	}
}

// PortForward reads PodPortForwardOptions. The error says which port is no number.
func PortForward(query url.Values) (*corev1.PodPortForwardOptions, error) {
	opts := &corev1.PodPortForwardOptions{}
	for _, text := range query["ports"] {
		for port := range strings.SplitSeq(text, ",") {
			n, err := strconv.ParseInt(port, 10, 32)
			if err != nil {
				return nil, err
			}
			opts.Ports = append(opts.Ports, int32(n))
		}
	}
	return opts, nil
}

// Log reads PodLogOptions and fills in the default of stream. The error says what is no number or time.
func Log(query url.Values) (*corev1.PodLogOptions, error) {
	opts := &corev1.PodLogOptions{
		Container: query.Get("container"),
		Follow:    flag(query, "follow"), Previous: flag(query, "previous"), Timestamps: flag(query, "timestamps"),
		InsecureSkipTLSVerifyBackend: flag(query, "insecureSkipTLSVerifyBackend"),
		Stream:                       new(corev1.LogStreamAll),
	}
	for name, into := range map[string]**int64{
		"sinceSeconds": &opts.SinceSeconds, "tailLines": &opts.TailLines, "limitBytes": &opts.LimitBytes,
	} {
		if values := query[name]; len(values) > 0 {
			n, err := strconv.ParseInt(values[0], 10, 64)
			if err != nil {
				return nil, err
			}
			*into = &n
		}
	}
	if text := query.Get("sinceTime"); text != "" {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return nil, err
		}
		opts.SinceTime = &metav1.Time{Time: t.Local()}
	}
	if values := query["stream"]; len(values) > 0 {
		opts.Stream = &values[0]
	}
	return opts, nil
}

func flag(query url.Values, name string) bool {
	values, ok := query[name]
	if !ok || len(values) == 0 {
		return false
	}
	return values[0] != "0" && !strings.EqualFold(values[0], "false")
}
