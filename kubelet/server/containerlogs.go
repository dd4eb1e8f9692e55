package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/kinds/podoptions"
	"vigil/kubelet/internal/logfile"
)

// containerLogs sends what a container has printed.
func (s *Server) containerLogs(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if lines := query.Get("tail"); lines != "" { // the old name
		query["tailLines"] = []string{lines}
		if lines == "all" {
			delete(query, "tailLines")
		}
	}
	opts, err := podoptions.Log(query)
	if err != nil {
		refuse(w, `{"message": "Unable to decode query."}`, http.StatusBadRequest)
		return
	}
	if len(podoptions.ValidateLog(opts)) > 0 {
		refuse(w, `{"message": "Invalid request."}`, http.StatusUnprocessableEntity)
		return
	}
	name := r.PathValue("container")
	pod := s.config.Node.Pod(r.PathValue("namespace"), r.PathValue("pod"))
	switch {
	case pod == nil:
		refuse(w, fmt.Sprintf("pod %q does not exist", r.PathValue("pod")), http.StatusNotFound)
		return
	case !hasContainer(pod, name):
		refuse(w, fmt.Sprintf("container %q not found in pod %q", name, pod.Name), http.StatusNotFound)
		return
	}
	id, err := loggedContainer(pod, name, opts.Previous)
	var path string
	if err == nil {
		path, err = s.logPath(r.Context(), pod, id)
	}
	if err != nil {
		refuse(w, err.Error(), http.StatusBadRequest)
		return
	}
	read := logfile.Options{
		Tail: -1, Timestamps: opts.Timestamps, Follow: opts.Follow,
		Stdout: *opts.Stream != corev1.LogStreamStderr, Stderr: *opts.Stream != corev1.LogStreamStdout,
		Running: func() bool { return runs(s.config.Node.Pod(pod.Namespace, pod.Name), name, id) },
	}
	if opts.TailLines != nil {
		read.Tail = *opts.TailLines
	}
	if opts.LimitBytes != nil {
		read.Limit = *opts.LimitBytes
	}
	switch {
	case opts.SinceSeconds != nil:
		read.Since = time.Now().Add(-time.Duration(*opts.SinceSeconds) * time.Second)
	case opts.SinceTime != nil:
		read.Since = opts.SinceTime.Time
	}
	if opts.Follow {
		changes, stop := s.logs.Watch(filepath.Dir(path))
		defer stop()
		read.Changes = changes
	}
	out := &flushing{w: w, control: http.NewResponseController(w)}
	if opts.Follow {
		out.flush() // the client is to know that it follows, also when there is nothing yet
	}
	if err := logfile.Copy(r.Context(), out, path, read); err != nil && !errors.Is(err, context.Canceled) && !out.begun {
		refuse(w, err.Error(), http.StatusBadRequest)
	}
}

// flushing sends what is written at once.
type flushing struct {
	w       http.ResponseWriter
	control *http.ResponseController
	begun   bool
}

func (f *flushing) Write(p []byte) (int, error) {
	f.begin()
	n, err := f.w.Write(p)
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}

func (f *flushing) flush() {
	f.begin()
	_ = f.control.Flush() // the first write will tell
}

func (f *flushing) begin() {
	if !f.begun {
		f.begun = true
		f.w.Header().Set("Content-Type", "text/plain")
	}
}

// logPath is the file that a container writes to.
func (s *Server) logPath(ctx context.Context, pod *corev1.Pod, id string) (string, error) {
	_, containers, err := s.config.Runtime.Pod(ctx, pod.UID)
	if err != nil {
		return "", fmt.Errorf("unable to retrieve container logs for %s: %w", id, err)
	}
	for _, c := range containers {
		if c.ID == id && c.LogPath != "" {
			return c.LogPath, nil
		}
	}
	return "", fmt.Errorf("unable to retrieve container logs for %s", id)
}

// statusOf finds what is known of a container.
func statusOf(pod *corev1.Pod, name string) *corev1.ContainerStatus {
	for _, list := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses, pod.Status.EphemeralContainerStatuses} {
		for i := range list {
			if list[i].Name == name {
				return &list[i]
			}
		}
	}
	return nil
}

// runs says whether a certain attempt at a container has not ended yet.
func runs(pod *corev1.Pod, name, id string) bool {
	if pod == nil {
		return false
	}
	s := statusOf(pod, name)
	return s != nil && s.State.Running != nil && s.ContainerID == id
}

// loggedContainer is the ID of the attempt whose log is meant: the one that runs, else the last that has. The error is upstream's
// (validateContainerLogStatus).
func loggedContainer(pod *corev1.Pod, name string, previous bool) (string, error) {
	s := statusOf(pod, name)
	if s == nil {
		return "", fmt.Errorf("container %q in pod %q is not available", name, pod.Name)
	}
	last := s.LastTerminationState.Terminated
	ended := fmt.Errorf("container %q in pod %q is terminated", name, pod.Name)
	switch {
	case previous:
		if last == nil || last.ContainerID == "" {
			return "", fmt.Errorf("previous terminated container %q in pod %q not found", name, pod.Name)
		}
		return last.ContainerID, nil
	case s.State.Running != nil:
		return s.ContainerID, nil
	case s.State.Terminated != nil && s.State.Terminated.ContainerID != "":
		return s.State.Terminated.ContainerID, nil
	case last != nil && last.ContainerID != "":
		return last.ContainerID, nil
	case s.State.Terminated != nil || last != nil:
		return "", ended
	case s.State.Waiting == nil:
		return "", fmt.Errorf("container %q in pod %q is waiting to start - no logs yet", name, pod.Name)
	}
	why := s.State.Waiting.Reason
	switch why {
	case "ErrImagePull":
		why = "image can't be pulled"
	case "ImagePullBackOff":
		why = "trying and failing to pull image"
	}
	return "", fmt.Errorf("container %q in pod %q is waiting to start: %s", name, pod.Name, strings.TrimSpace(why))
}
