package cri

import (
	"context"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// What the kubelet's server and its statistics ask of a runtime. IDs are as kubelet.Runtime has them.

// ExecURL prepares a command in a container and returns where to stream it.
func (r *Runtime) ExecURL(ctx context.Context, id string, options *corev1.PodExecOptions) (*url.URL, error) {
	answer, err := r.client.Exec(ctx, &runtimeapi.ExecRequest{
		ContainerId: bare(id), Cmd: options.Command, Tty: options.TTY, Stdin: options.Stdin, Stdout: options.Stdout, Stderr: options.Stderr,
	})
	if err != nil {
		return nil, fmt.Errorf("exec in container %s: %w", id, err)
	}
	return url.Parse(answer.Url)
}

// AttachURL prepares to attach to a container that runs and returns where to stream.
func (r *Runtime) AttachURL(ctx context.Context, id string, options *corev1.PodAttachOptions) (*url.URL, error) {
	answer, err := r.client.Attach(ctx, &runtimeapi.AttachRequest{
		ContainerId: bare(id), Tty: options.TTY, Stdin: options.Stdin, Stdout: options.Stdout, Stderr: options.Stderr,
	})
	if err != nil {
		return nil, fmt.Errorf("attach to container %s: %w", id, err)
	}
	return url.Parse(answer.Url)
}

// PortForwardURL prepares connections to ports of a pod and returns where to stream them.
func (r *Runtime) PortForwardURL(ctx context.Context, uid types.UID, ports []int32) (*url.URL, error) {
	if _, _, err := r.Pod(ctx, uid); err != nil {
		return nil, err
	}
	in := r.cache.sandbox(uid)
	if in == nil {
		return nil, fmt.Errorf("pod %s has no sandbox", uid)
	}
	answer, err := r.client.PortForward(ctx, &runtimeapi.PortForwardRequest{PodSandboxId: in.bare, Port: ports})
	if err != nil {
		return nil, fmt.Errorf("forward ports of pod %s: %w", uid, err)
	}
	return url.Parse(answer.Url)
}

// Checkpoint writes an archive of a container that runs to location. timeout is in seconds, 0: the runtime's.
func (r *Runtime) Checkpoint(ctx context.Context, id, location string, timeout int64) error {
	if _, err := r.client.CheckpointContainer(ctx, &runtimeapi.CheckpointContainerRequest{ContainerId: bare(id), Location: location, Timeout: timeout}); err != nil {
		return fmt.Errorf("checkpoint container %s: %w", id, err)
	}
	return nil
}
