package server

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/internal/panics"
	"vigil/internal/slis"
	"vigil/kubelet"
	"vigil/kubelet/untrusted"
)

// pods lists the pods that are to run here.
func (s *Server) pods(w http.ResponseWriter, _ *http.Request) { writePods(w, s.config.Node.Pods()) }

// runningPods lists what the runtime runs, with no more than names and images: other tools know more.
func (s *Server) runningPods(w http.ResponseWriter, r *http.Request) {
	references, err := s.config.Runtime.Pods(r.Context())
	if err != nil {
		refuse(w, err.Error(), http.StatusInternalServerError)
		return
	}
	var pods []*corev1.Pod
	for _, ref := range references {
		sandbox, containers, err := s.config.Runtime.Pod(r.Context(), ref.UID)
		if err != nil {
			refuse(w, err.Error(), http.StatusInternalServerError)
			return
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ref.Namespace, Name: ref.Name, UID: ref.UID}}
		for _, c := range containers {
			if c.State == kubelet.ContainerRunning {
				pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c.Name, Image: c.Image})
			}
		}
		if len(pod.Spec.Containers) > 0 || sandbox != nil && sandbox.Ready {
			pods = append(pods, pod)
		}
	}
	writePods(w, pods)
}

func writePods(w http.ResponseWriter, pods []*corev1.Pod) {
	list := &corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: make([]corev1.Pod, 0, len(pods))}
	for _, pod := range pods {
		list.Items = append(list.Items, *pod)
	}
	data, err := json.Marshal(list)
	if err != nil {
		refuse(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, data)
}

func writeJSON(w http.ResponseWriter, data []byte) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(data) // a failed write means that the client is gone
}

// healthz says whether the kubelet works, with all checks or the one that the path names.
func (s *Server) healthz(w http.ResponseWriter, r *http.Request) {
	serveChecks(s.config.Healthy, s.config.SLIs, w, r)
}

// Health answers /healthz and /healthz/CHECK without asking who wants to know: for a port of the node's own (--healthz-port). What the
// checks find is counted in indicators, which may be nil.
func Health(checks map[string]func(*http.Request) error, indicators *slis.Metrics) http.Handler {
	mux := http.NewServeMux()
	serve := func(w http.ResponseWriter, r *http.Request) { serveChecks(checks, indicators, w, r) }
	mux.HandleFunc("GET /healthz", serve)
	mux.HandleFunc("GET /healthz/{check}", serve)
	return mux
}

// serveChecks answers how further checks are, beside those that every component has.
func serveChecks(further map[string]func(*http.Request) error, indicators *slis.Metrics, w http.ResponseWriter, r *http.Request) {
	fine := func(*http.Request) error { return nil }
	checks := map[string]func(*http.Request) error{"ping": fine, "log": fine}
	names := []string{"ping", "log"}
	for name, check := range further {
		checks[name] = check
		names = append(names, name)
	}
	slices.Sort(names[2:])
	if one := r.PathValue("check"); one != "" {
		if one == panics.CheckName {
			fmt.Fprint(w, cmp.Or(panics.Notice(), "ok"))
			return
		}
		if checks[one] == nil {
			http.NotFound(w, r)
			return
		}
		names, indicators = []string{one}, nil // upstream counts where all are asked
	}
	text, failed := "", false
	for _, name := range names {
		err := checks[name](r)
		indicators.Observe(name, "healthz", err)
		if err != nil {
			failed = true
			text += fmt.Sprintf("[-]%s failed: %v\n", name, err)
			continue
		}
		text += fmt.Sprintf("[+]%s ok\n", name)
	}
	if r.PathValue("check") == "" {
		text += panics.Line()
	}
	_, verbose := r.URL.Query()["verbose"]
	switch {
	case failed:
		refuse(w, text+"healthz check failed", http.StatusInternalServerError)
	case verbose:
		fmt.Fprint(w, text, "healthz check passed\n")
	default:
		fmt.Fprint(w, "ok")
	}
}

// configz shows the configuration.
func (s *Server) configz(w http.ResponseWriter, _ *http.Request) {
	var config any = struct{}{}
	if s.config.Configz != nil {
		config = s.config.Configz()
	}
	data, err := json.Marshal(map[string]any{"kubeletconfig": config})
	if err != nil {
		refuse(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, data)
}

// nodeLogs shows the files of LogDir. Links out of it are not followed: a pod that may write there must not thereby read the host.
func (s *Server) nodeLogs() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root, err := os.OpenRoot(s.config.LogDir)
		if err != nil {
			refuse(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer root.Close()
		http.StripPrefix("/logs/", http.FileServerFS(logFiles{root})).ServeHTTP(w, r)
	})
}

// logFiles are the regular files and directories below one. To open anything else could take for ever, or use a device.
type logFiles struct{ root *os.Root }

// Open implements fs.FS.
func (f logFiles) Open(name string) (fs.File, error) {
	info, err := f.root.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return f.root.Open(name)
	}
	file, err := untrusted.OpenIn(f.root.Name(), name)
	if errors.Is(err, untrusted.ErrNotRegular) {
		err = fs.ErrPermission
	}
	return file, err
}

// checkpoint writes the state of a container to a file and answers with its name.
func (s *Server) checkpoint(w http.ResponseWriter, r *http.Request) {
	pod := s.config.Node.Pod(r.PathValue("namespace"), r.PathValue("pod"))
	if pod == nil {
		refuse(w, "pod does not exist", http.StatusNotFound)
		return
	}
	name := r.PathValue("container")
	if !hasContainer(pod, name) {
		refuse(w, fmt.Sprintf("container %v does not exist", name), http.StatusNotFound)
		return
	}
	var timeout int64
	if values := r.URL.Query()["timeout"]; len(values) > 0 {
		var err error
		if timeout, err = strconv.ParseInt(values[len(values)-1], 10, 64); err != nil {
			refuse(w, "cannot parse value of timeout parameter", http.StatusNotFound)
			return
		}
	}
	running, err := s.running(r.Context(), pod.UID, name)
	if err == nil && running == nil {
		err = fmt.Errorf("container %v not found", name)
	}
	file := filepath.Join(s.config.CheckpointDir, fmt.Sprintf("checkpoint-%s_%s-%s-%s.tar", pod.Name, pod.Namespace, name, time.Now().Format(time.RFC3339)))
	if err == nil {
		err = s.config.Checkpoints.Checkpoint(r.Context(), running.ID, file, timeout)
	}
	if err != nil {
		refuse(w, fmt.Sprintf("checkpointing of %v/%v/%v failed (%v)", pod.Namespace, pod.Name, name, err), http.StatusInternalServerError)
		return
	}
	data, err := json.Marshal(map[string][]string{"items": {file}})
	if err != nil {
		refuse(w, err.Error(), http.StatusInternalServerError)
		return
	}
	writeJSON(w, data)
}

func hasContainer(pod *corev1.Pod, name string) bool {
	return slices.ContainsFunc(pod.Spec.InitContainers, func(c corev1.Container) bool { return c.Name == name }) ||
		slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == name }) ||
		slices.ContainsFunc(pod.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}
