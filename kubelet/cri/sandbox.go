package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet"
	"vigil/kubelet/untrusted"
)

// RunSandbox implements kubelet.Runtime. Sandboxes that the pod has had stay until Collect or RemovePod takes them.
func (r *Runtime) RunSandbox(ctx context.Context, pod *corev1.Pod, options kubelet.SandboxOptions) (*kubelet.Sandbox, error) {
	prefix, err := r.prefix(ctx)
	if err != nil {
		return nil, err
	}
	if _, _, err := r.Pod(ctx, pod.UID); err != nil {
		return nil, err
	}
	attempt := uint32(0)
	if old := r.cache.sandbox(pod.UID); old != nil {
		attempt = old.attempt + 1
	}
	config, err := r.sandboxConfig(pod, options, attempt)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(config.LogDirectory, 0o755); err != nil {
		return nil, fmt.Errorf("create the pod's log directory: %w", err)
	}
	r.cache.begin(pod.UID)
	defer r.cache.end(pod.UID)
	id, err := r.runSandbox(ctx, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: options.Handler})
	if err != nil {
		r.cache.doubt(pod.UID)
		return nil, err
	}
	if _, err := r.askSandbox(ctx, prefix, id, &options); err != nil {
		r.cache.doubt(pod.UID)
		return nil, err
	}
	made := r.cache.sandbox(pod.UID)
	if made == nil || made.bare != id {
		return nil, fmt.Errorf("sandbox %s has gone", id)
	}
	return &made.Sandbox, nil
}

// firstPatience is how long sandboxes wait for the first one to find out what the runtime can do.
const firstPatience = 2 * time.Second

// runSandbox has the runtime make a sandbox, without a filter of system calls if it cannot have one. No request asks for that, so the
// first sandbox finds out, and others wait for it a little.
func (r *Runtime) runSandbox(ctx context.Context, request *runtimeapi.RunPodSandboxRequest) (id string, err error) {
	if !r.proven.Load() {
		release := r.awaitFirst(ctx)
		defer release()
		if r.noSeccomp.Load() {
			request.Config.Linux.SecurityContext.Seccomp = unconfined()
		}
	}
	answer, err := r.client.RunPodSandbox(ctx, request)
	if lacksSeccomp(err) {
		if !r.noSeccomp.Swap(true) {
			r.logger.Warn("the container runtime cannot filter system calls; containers that want the seccomp profile RuntimeDefault are not started")
		}
		request.Config.Linux.SecurityContext.Seccomp = unconfined()
		answer, err = r.client.RunPodSandbox(ctx, request)
	}
	if err != nil {
		return "", err
	}
	r.proven.Store(true)
	return answer.PodSandboxId, nil
}

// awaitFirst returns when another sandbox has been made, or could not be, or takes too long, or when this one is the first. release
// is to be called when it has been made.
func (r *Runtime) awaitFirst(ctx context.Context) (release func()) {
	select {
	case r.first <- struct{}{}:
	case <-time.After(firstPatience):
		return func() {}
	case <-ctx.Done():
		return func() {}
	}
	release = sync.OnceFunc(func() { <-r.first })
	if r.proven.Load() {
		release() // the next needs not wait
	}
	return release
}

// lacksSeccomp says whether a sandbox could not be made because the low-level runtime was built without libseccomp, or because the
// kernel cannot filter system calls.
func lacksSeccomp(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "seccomp not supported") || strings.Contains(err.Error(), "seccomp is not supported"))
}

// StopSandbox implements kubelet.Runtime.
func (r *Runtime) StopSandbox(ctx context.Context, uid types.UID) error {
	if _, _, err := r.Pod(ctx, uid); err != nil {
		return err
	}
	defer r.cache.doubt(uid)
	for id := range r.cache.known(uid).sandboxes {
		if _, err := r.client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
			return fmt.Errorf("stop sandbox %s: %w", id, err)
		}
	}
	return nil
}

// RemovePod implements kubelet.Runtime.
func (r *Runtime) RemovePod(ctx context.Context, uid types.UID) error {
	if err := r.refresh(ctx, uid); err != nil {
		return err
	}
	reference, known := r.cache.reference(uid), r.cache.known(uid)
	for id, s := range known.sandboxes {
		if s.live { // else that is done, and runtimes that remove a sandbox do it again, network plug-ins and all
			if _, err := r.client.StopPodSandbox(ctx, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}); err != nil {
				r.cache.doubt(uid)
				return fmt.Errorf("stop sandbox %s: %w", id, err)
			}
		}
		if err := r.removeSandbox(ctx, uid, id); err != nil {
			return err
		}
	}
	if reference.Name == "" {
		return r.removePodLogs(ctx, uid)
	}
	if err := untrusted.Remove(ctx, r.podLogDir(reference.Namespace, reference.Name, uid)); err != nil {
		return fmt.Errorf("remove the pod's logs: %w", err)
	}
	return nil
}

// removeSandbox removes a sandbox that has been stopped, with its containers.
func (r *Runtime) removeSandbox(ctx context.Context, uid types.UID, id string) error {
	if _, err := r.client.RemovePodSandbox(ctx, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}); err != nil {
		r.cache.doubt(uid)
		return fmt.Errorf("remove sandbox %s: %w", id, err)
	}
	for c, of := range r.cache.known(uid).containers {
		if of.sandbox == id {
			r.cache.remove(c)
		}
	}
	r.cache.remove(id)
	return nil
}

// removePodLogs removes the logs of a pod of which only the UID is known.
func (r *Runtime) removePodLogs(ctx context.Context, uid types.UID) error {
	found, err := filepath.Glob(filepath.Join(r.config.LogDir, "*_*_"+string(uid)))
	if err != nil {
		return fmt.Errorf("find the pod's logs: %w", err)
	}
	for _, dir := range found {
		err = errors.Join(err, untrusted.Remove(ctx, dir))
	}
	return err
}

// sandboxConfig is upstream's generatePodSandboxConfig. Ports are not mapped: the kubelet opens host ports itself.
func (r *Runtime) sandboxConfig(pod *corev1.Pod, options kubelet.SandboxOptions, attempt uint32) (*runtimeapi.PodSandboxConfig, error) {
	config := &runtimeapi.PodSandboxConfig{
		Metadata:     &runtimeapi.PodSandboxMetadata{Name: pod.Name, Namespace: pod.Namespace, Uid: string(pod.UID), Attempt: attempt},
		Labels:       podLabels(pod),
		Annotations:  pod.Annotations,
		LogDirectory: r.podLogDir(pod.Namespace, pod.Name, pod.UID),
		Linux: &runtimeapi.LinuxPodSandboxConfig{
			CgroupParent: options.CgroupParent,
			Resources:    r.sandboxResources(pod),
			Overhead:     r.overhead(pod),
		},
	}
	if !pod.Spec.HostNetwork {
		config.Hostname = options.Hostname
	}
	if dns := options.DNS; dns != nil {
		config.DnsConfig = &runtimeapi.DNSConfig{Servers: dns.Servers, Searches: dns.Searches, Options: dns.Options}
	}
	security, err := r.sandboxSecurity(pod, options)
	if err != nil {
		return nil, err
	}
	config.Linux.SecurityContext = security
	if sc := pod.Spec.SecurityContext; sc != nil && len(sc.Sysctls) > 0 {
		config.Linux.Sysctls = make(map[string]string, len(sc.Sysctls))
		for _, s := range sc.Sysctls {
			config.Linux.Sysctls[s.Name] = s.Value
		}
	}
	return config, nil
}
