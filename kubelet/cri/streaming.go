package cri

import (
	"context"
	"fmt"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Streams and statistics: what the kubelet's server and its summary ask of a runtime. IDs are as kubelet.Runtime has them.

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

// ContainerStats returns the statistics of all containers that run.
func (r *Runtime) ContainerStats(ctx context.Context) ([]*runtimeapi.ContainerStats, error) {
	answer, err := r.client.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
	if err != nil {
		return nil, fmt.Errorf("list container statistics: %w", err)
	}
	return answer.Stats, nil
}

// PodStats returns the statistics of all sandboxes that run, with those of their containers.
func (r *Runtime) PodStats(ctx context.Context) ([]*runtimeapi.PodSandboxStats, error) {
	answer, err := r.client.ListPodSandboxStats(ctx, &runtimeapi.ListPodSandboxStatsRequest{})
	if err != nil {
		return nil, fmt.Errorf("list pod statistics: %w", err)
	}
	return answer.Stats, nil
}

// ImageFilesystems returns the file systems of images and of what containers write; the second may be the first.
func (r *Runtime) ImageFilesystems(ctx context.Context) (images, containers []*runtimeapi.FilesystemUsage, err error) {
	answer, err := r.images.client.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return nil, nil, fmt.Errorf("ask for image file systems: %w", err)
	}
	return answer.ImageFilesystems, answer.ContainerFilesystems, nil
}
