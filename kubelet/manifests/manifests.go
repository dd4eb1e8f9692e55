package manifests

import (
	"context"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"vigil/internal/panics"
	"vigil/kinds"
	"vigil/kinds/core"
	"vigil/kubelet/internal/podcontainers"
	"vigil/kubelet/untrusted"
)

// Annotations of pods from manifests and of the objects in the API that show them (pkg/kubelet/types/pod_update.go).
const (
	SourceAnnotation = "kubernetes.io/config.source" // "file"; what the API server sends is no manifest's, whatever it says
	HashAnnotation   = "kubernetes.io/config.hash"   // names the content of the manifest
	SeenAnnotation   = "kubernetes.io/config.seen"   // when the kubelet read it first
	MirrorAnnotation = "kubernetes.io/config.mirror" // of an object in the API: the hash of the pod that it shows
)

// manifestLimit is how large a manifest may be, in bytes (pkg/kubelet/config: maxConfigLength).
const manifestLimit = 10 << 20

// manifestPeriod is how often manifests are read when nobody tells of a change (--file-check-frequency).
const manifestPeriod = 20 * time.Second

// Reader reads the pods that run on a node whatever the API server says, from a directory of files or from one file, each a Pod
// in YAML or JSON. Names that begin with a dot are left out. A file that is wrong is left out too, and logged when it changes.
type Reader struct {
	path, node string
	logger     *slog.Logger

	pod  *kinds.Kind
	seen map[types.UID]*corev1.Pod // as read before: a pod keeps the time at which it was first seen
	told map[string]string         // what was wrong with a file
}

// New makes a Reader of the manifests at a path, for the node of a name.
func New(path, node string, logger *slog.Logger) *Reader {
	return &Reader{path: path, node: node, logger: logger, pod: core.Pod(), seen: map[types.UID]*corev1.Pod{}, told: map[string]string{}}
}

// Run calls changed with all pods, at once and whenever there may be others, until ctx ends.
func (m *Reader) Run(ctx context.Context, changed func(map[types.UID]*corev1.Pod)) {
	watcher, err := fsnotify.NewWatcher()
	var events <-chan fsnotify.Event
	if err == nil {
		defer watcher.Close()
		events = watcher.Events
	} else {
		m.logger.Warn("the kubelet cannot watch the manifests of static pods; it looks at them from time to time", "path", m.path, "error", err)
	}
	ticker := time.NewTicker(manifestPeriod)
	defer ticker.Stop()
	for {
		if watcher != nil && len(watcher.WatchList()) == 0 {
			_ = watcher.Add(m.path) // it may come into being later
		}
		if pods, err := panics.Call(m.logger, panics.Node, m.read, "path", m.path); err == nil {
			changed(pods)
		} else {
			m.logger.Warn("the kubelet could not read the manifests of static pods; the pods that run go on", "path", m.path, "error", err) // what runs, runs on
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		case <-events:
			settle(events)
		}
	}
}

// settle lets a burst of events pass: a file is made, then written, then closed.
func settle(events <-chan fsnotify.Event) {
	quiet := time.NewTimer(100 * time.Millisecond)
	defer quiet.Stop()
	for {
		select {
		case <-events:
		case <-quiet.C:
			return
		}
	}
}

// read reads all pods. A path that is not there has none.
func (m *Reader) read() (map[types.UID]*corev1.Pod, error) {
	info, err := os.Stat(m.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	files := []string{m.path}
	if info.IsDir() {
		entries, err := os.ReadDir(m.path)
		if err != nil {
			return nil, err
		}
		files = files[:0]
		for _, entry := range entries {
			if !strings.HasPrefix(entry.Name(), ".") && !entry.IsDir() {
				files = append(files, filepath.Join(m.path, entry.Name()))
			}
		}
	}
	pods := map[types.UID]*corev1.Pod{}
	for _, file := range files {
		pod, warnings, err := m.readFile(file)
		wrong := strings.Join(warnings, "; ")
		if err != nil {
			wrong = err.Error()
		}
		switch {
		case wrong == "" || m.told[file] == wrong:
		case err != nil:
			m.logger.Error("the kubelet cannot use a manifest; its pod does not run until the file is mended", "file", file, "error", err)
		default:
			m.logger.Warn("a manifest has fields that do not exist; the kubelet ignores them", "file", file, "warnings", wrong)
		}
		m.told[file] = wrong
		if pod == nil {
			continue
		}
		if known := m.seen[pod.UID]; known != nil {
			pod = known
		}
		pods[pod.UID] = pod
	}
	m.seen = pods
	return pods, nil
}

// readFile reads one pod; nil for what is no regular file. The warnings are of fields that were dropped.
func (m *Reader) readFile(file string) (pod *corev1.Pod, warnings []string, err error) {
	path, err := filepath.EvalSymlinks(file) // a manifest may be a link to one
	if err != nil {
		return nil, nil, err
	}
	data, err := untrusted.Read(path, manifestLimit)
	if errors.Is(err, untrusted.ErrNotRegular) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	pod = &corev1.Pod{}
	if err := yaml.Unmarshal(data, pod); err != nil {
		return nil, nil, fmt.Errorf("decode: %w", err)
	}
	if pod.Kind != "Pod" || pod.APIVersion != "v1" {
		return nil, nil, fmt.Errorf("it is a %s of %s, not a Pod of v1", pod.Kind, pod.APIVersion)
	}
	if err := m.complete(pod, file); err != nil {
		return nil, nil, err
	}
	return pod, m.pod.Drop(pod, nil), nil
}

// complete makes of what a file says what the API server would have made, and what tells that it did not (config/common.go).
func (m *Reader) complete(pod *corev1.Pod, file string) error {
	if pod.UID == "" {
		hash := md5.New() // it names, it protects nothing
		if err := json.NewEncoder(hash).Encode(pod); err != nil {
			return fmt.Errorf("encode: %w", err)
		}
		fmt.Fprintf(hash, "host:%s file:%s", m.node, file)
		pod.UID = types.UID(hex.EncodeToString(hash.Sum(nil)))
	}
	if pod.Name == "" {
		return errors.New("metadata.name: Required value")
	}
	pod.Name += "-" + strings.ToLower(m.node)
	if pod.Namespace == "" {
		pod.Namespace = corev1.NamespaceDefault
	}
	pod.Spec.NodeName = m.node
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	pod.Annotations[SourceAnnotation] = "file"
	pod.Annotations[HashAnnotation] = string(pod.UID)
	delete(pod.Annotations, MirrorAnnotation) // of a manifest that was read off a mirror: this is the pod itself
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute})
	m.pod.Default(pod)
	if wrong := m.pod.Validate(pod); len(wrong) > 0 {
		return fmt.Errorf("invalid pod: %w", wrong.ToAggregate())
	}
	if kind := references(pod); kind != "" {
		return fmt.Errorf("static pods may not reference %s", kind)
	}
	pod.Annotations[SeenAnnotation] = time.Now().Format(time.RFC3339Nano)
	pod.Status.Phase = corev1.PodPending
	return nil
}

// references says which kind of API object a pod wants; "" when none (KEP-5205: a static pod starts without an API server).
func references(pod *corev1.Pod) string {
	if pod.Spec.ServiceAccountName != "" {
		return "serviceaccounts"
	}
	if len(pod.Spec.ImagePullSecrets) > 0 {
		return "secrets"
	}
	if len(pod.Spec.ResourceClaims) > 0 {
		return "resourceclaims"
	}
	for c := range podcontainers.All(pod) {
		for _, from := range c.EnvFrom {
			switch {
			case from.SecretRef != nil:
				return "secrets"
			case from.ConfigMapRef != nil:
				return "configmaps"
			}
		}
		for _, v := range c.Env {
			switch {
			case v.ValueFrom == nil:
			case v.ValueFrom.SecretKeyRef != nil:
				return "secrets"
			case v.ValueFrom.ConfigMapKeyRef != nil:
				return "configmaps"
			}
		}
	}
	for i := range pod.Spec.Volumes {
		if kind := volumeReferences(&pod.Spec.Volumes[i]); kind != "" {
			return kind
		}
	}
	return ""
}

func volumeReferences(v *corev1.Volume) string {
	switch {
	case v.Secret != nil:
		return "secrets"
	case v.ConfigMap != nil:
		return "configmaps"
	case v.PersistentVolumeClaim != nil, v.Ephemeral != nil:
		return "persistentvolumeclaims"
	case v.CSI != nil && v.CSI.NodePublishSecretRef != nil:
		return "secrets"
	case v.Projected == nil:
		return ""
	}
	for _, source := range v.Projected.Sources {
		switch {
		case source.Secret != nil:
			return "secrets"
		case source.ConfigMap != nil:
			return "configmaps"
		case source.ServiceAccountToken != nil:
			return "serviceaccounts"
		case source.ClusterTrustBundle != nil:
			return "clustertrustbundles"
		case source.PodCertificate != nil:
			return "podcertificates"
		}
	}
	return ""
}
