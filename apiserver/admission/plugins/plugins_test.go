package plugins_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/apiserver"
	"vigil/apiserver/admission/plugins"
	"vigil/apiserver/apiservertest"
)

// world is a server with plug-ins, a namespace x and a service account there.
type world struct {
	*apiservertest.Server
	*kubernetes.Clientset
	warnings *warnings
}

type warnings struct{ texts []string }

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) { w.texts = append(w.texts, text) }

func start(t *testing.T, config plugins.Config) *world {
	t.Helper()
	s := apiservertest.Start(t, func(c *apiserver.Config) { c.Admission = config })
	client, seen := s.Admin(), &warnings{}
	client.WarningHandler = seen
	w := &world{s, must(kubernetes.NewForConfig(client))(t), seen}
	ctx := t.Context()
	must(w.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "x"}}, metav1.CreateOptions{}))(t)
	must(w.CoreV1().ServiceAccounts("x").Create(ctx, &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Name: "default"}, ImagePullSecrets: []corev1.LocalObjectReference{{Name: "pull"}},
	}, metav1.CreateOptions{}))(t)
	return w
}

func must[T any](value T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func refused(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || err.Error() != text {
		t.Errorf("got  %v\nwant %s", err, text)
	}
}

func (w *world) pod(t *testing.T, name string, change func(*corev1.Pod)) (*corev1.Pod, error) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "i", Image: "i"}},
		Containers:     []corev1.Container{{Name: "c", Image: "i"}},
	}}
	if change != nil {
		change(pod)
	}
	return w.CoreV1().Pods("x").Create(t.Context(), pod, metav1.CreateOptions{})
}

func TestPod(t *testing.T) {
	w := start(t, plugins.Config{})
	pod := must(w.pod(t, "p", nil))(t)

	if pod.Spec.ServiceAccountName != "default" || len(pod.Spec.ImagePullSecrets) != 1 || pod.Spec.ImagePullSecrets[0].Name != "pull" {
		t.Errorf("account %q, pull secrets %v", pod.Spec.ServiceAccountName, pod.Spec.ImagePullSecrets)
	}
	if len(pod.Spec.Volumes) != 1 || len(pod.Spec.Volumes[0].Name) != len("kube-api-access-xxxxx") {
		t.Fatalf("volumes %v", pod.Spec.Volumes)
	}
	projected := pod.Spec.Volumes[0].Projected
	if len(projected.Sources) != 3 || *projected.Sources[0].ServiceAccountToken.ExpirationSeconds != 3607 || *projected.DefaultMode != 0o644 {
		t.Errorf("token volume: %v", projected)
	}
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		if len(c.VolumeMounts) != 1 || c.VolumeMounts[0].MountPath != "/var/run/secrets/kubernetes.io/serviceaccount" || !c.VolumeMounts[0].ReadOnly {
			t.Errorf("%s mounts %v", c.Name, c.VolumeMounts)
		}
	}
	if pod.Spec.Priority == nil || *pod.Spec.Priority != 0 || *pod.Spec.PreemptionPolicy != corev1.PreemptLowerPriority {
		t.Errorf("priority %v, preemption %v", pod.Spec.Priority, pod.Spec.PreemptionPolicy)
	}
	var tolerations []string
	for _, toleration := range pod.Spec.Tolerations {
		tolerations = append(tolerations, fmt.Sprintf("%s %s %d", toleration.Key, toleration.Effect, *toleration.TolerationSeconds))
	}
	if got := strings.Join(tolerations, ", "); got != "node.kubernetes.io/not-ready NoExecute 300, node.kubernetes.io/unreachable NoExecute 300" {
		t.Errorf("tolerations: %s", got)
	}

	no := false
	pod = must(w.pod(t, "bare", func(p *corev1.Pod) { p.Spec.AutomountServiceAccountToken = &no }))(t)
	if len(pod.Spec.Volumes) != 0 {
		t.Errorf("volumes %v", pod.Spec.Volumes)
	}
	_, err := w.pod(t, "lost", func(p *corev1.Pod) { p.Spec.ServiceAccountName = "nobody" })
	refused(t, err, `pods "lost" is forbidden: error looking up service account x/nobody: serviceaccount "nobody" not found`)
	_, err = w.pod(t, "", func(p *corev1.Pod) { p.GenerateName, p.Spec.ServiceAccountName = "lost-", "nobody" })
	refused(t, err, `pods "lost-" is forbidden: error looking up service account x/nobody: serviceaccount "nobody" not found`)
	_, err = w.pod(t, "important", func(p *corev1.Pod) { p.Spec.PriorityClassName = "none" })
	refused(t, err, `pods "important" is forbidden: no PriorityClass with name none was found`)
	high := int32(9)
	_, err = w.pod(t, "important", func(p *corev1.Pod) { p.Spec.Priority = &high })
	refused(t, err, `pods "important" is forbidden: the integer value of priority (9) must not be provided in pod spec; priority admission controller computed 0 from the given PriorityClass name`)
	runtime := "gone"
	_, err = w.pod(t, "r", func(p *corev1.Pod) { p.Spec.RuntimeClassName = &runtime })
	refused(t, err, `pods "r" is forbidden: pod rejected: RuntimeClass "gone" not found`)
	_, err = w.pod(t, "r", func(p *corev1.Pod) { p.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("1")} })
	refused(t, err, `pods "r" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead`)
	_, err = w.CoreV1().Pods("nowhere").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: pod.Spec}, metav1.CreateOptions{})
	refused(t, err, `namespaces "nowhere" not found`)

	// A dry run passes the same plug-ins.
	dry := must(w.CoreV1().Pods("x").Create(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "d"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}},
		metav1.CreateOptions{DryRun: []string{"All"}}))(t)
	if dry.Spec.ServiceAccountName != "default" {
		t.Errorf("dry run: account %q", dry.Spec.ServiceAccountName)
	}
}

func TestPod_Classes(t *testing.T) {
	w := start(t, plugins.Config{})
	never := corev1.PreemptNever
	classes := w.SchedulingV1().PriorityClasses()
	must(classes.Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "usual"}, Value: 5, GlobalDefault: true, PreemptionPolicy: &never}, metav1.CreateOptions{}))(t)
	_, err := classes.Create(t.Context(), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "too"}, Value: 6, GlobalDefault: true}, metav1.CreateOptions{})
	refused(t, err, `priorityclasses.scheduling.k8s.io "too" is forbidden: PriorityClass usual is already marked as default. Only one default can exist`)
	must(w.NodeV1().RuntimeClasses().Create(t.Context(), &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: "vm"}, Handler: "vm",
		Overhead:   &nodev1.Overhead{PodFixed: corev1.ResourceList{"cpu": resource.MustParse("100m")}},
		Scheduling: &nodev1.Scheduling{NodeSelector: map[string]string{"vm": "yes"}, Tolerations: []corev1.Toleration{{Key: "vm", Operator: corev1.TolerationOpExists}}},
	}, metav1.CreateOptions{}))(t)
	vm := "vm"
	pod := must(w.pod(t, "p", func(p *corev1.Pod) { p.Spec.RuntimeClassName = &vm }))(t)
	if *pod.Spec.Priority != 5 || pod.Spec.PriorityClassName != "usual" || *pod.Spec.PreemptionPolicy != never {
		t.Errorf("priority %d of class %q, preemption %s", *pod.Spec.Priority, pod.Spec.PriorityClassName, *pod.Spec.PreemptionPolicy)
	}
	if pod.Spec.Overhead.Cpu().String() != "100m" || pod.Spec.NodeSelector["vm"] != "yes" || len(pod.Spec.Tolerations) != 3 {
		t.Errorf("overhead %v, selector %v, tolerations %v", pod.Spec.Overhead, pod.Spec.NodeSelector, pod.Spec.Tolerations)
	}
	_, err = w.pod(t, "q", func(p *corev1.Pod) { p.Spec.RuntimeClassName, p.Spec.NodeSelector = &vm, map[string]string{"vm": "no"} })
	refused(t, err, `pods "q" is forbidden: conflict: runtimeClass.scheduling.nodeSelector[vm] = yes; pod.spec.nodeSelector[vm] = no`)
}

func TestLimitRanger(t *testing.T) {
	w := start(t, plugins.Config{})
	amounts := func(cpu string) corev1.ResourceList { return corev1.ResourceList{"cpu": resource.MustParse(cpu)} }
	must(w.CoreV1().LimitRanges("x").Create(t.Context(), &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Name: "l"}, Spec: corev1.LimitRangeSpec{Limits: []corev1.LimitRangeItem{
		{Type: corev1.LimitTypeContainer, Min: amounts("100m"), Max: amounts("2"), Default: amounts("500m"), DefaultRequest: amounts("200m"), MaxLimitRequestRatio: amounts("4")},
		{Type: corev1.LimitTypePod, Max: amounts("3")},
		{Type: corev1.LimitTypePersistentVolumeClaim, Max: corev1.ResourceList{"storage": resource.MustParse("1Gi")}},
	}}}, metav1.CreateOptions{}))(t)
	pod := must(w.pod(t, "p", nil))(t)
	if c := pod.Spec.Containers[0]; c.Resources.Requests.Cpu().String() != "200m" || c.Resources.Limits.Cpu().String() != "500m" {
		t.Errorf("resources %v", c.Resources)
	}
	want := "LimitRanger plugin set: cpu request for container c; cpu limit for container c; cpu request for init container i; cpu limit for init container i"
	if got := pod.Annotations["kubernetes.io/limit-ranger"]; got != want {
		t.Errorf("annotation %q", got)
	}
	with := func(request, limit string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: amounts(request), Limits: amounts(limit)}
		}
	}
	_, err := w.pod(t, "q", with("50m", "150m"))
	refused(t, err, `pods "q" is forbidden: minimum cpu usage per Container is 100m, but request is 50m`)
	_, err = w.pod(t, "q", with("1", "2500m"))
	refused(t, err, `pods "q" is forbidden: maximum cpu usage per Container is 2, but limit is 2500m`)
	_, err = w.pod(t, "q", with("100m", "1"))
	refused(t, err, `pods "q" is forbidden: cpu max limit to request ratio per Container is 4, but provided ratio is 10.000000`)
	_, err = w.CoreV1().PersistentVolumeClaims("x").Create(t.Context(), claim("big", "2Gi"), metav1.CreateOptions{})
	refused(t, err, `persistentvolumeclaims "big" is forbidden: maximum storage usage per PersistentVolumeClaim is 1Gi, but request is 2Gi`)
}

func claim(name, size string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{"storage": resource.MustParse(size)}},
	}}
}

func TestStorage(t *testing.T) {
	w := start(t, plugins.Config{})
	ctx := t.Context()
	yes := true
	must(w.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "gold", Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}}, Provisioner: "p", AllowVolumeExpansion: &yes,
	}, metav1.CreateOptions{}))(t)
	must(w.StorageV1().StorageClasses().Create(ctx, &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "stiff"}, Provisioner: "p"}, metav1.CreateOptions{}))(t)
	claims := w.CoreV1().PersistentVolumeClaims("x")
	c := must(claims.Create(ctx, claim("c", "1Gi"), metav1.CreateOptions{}))(t)
	if c.Spec.StorageClassName == nil || *c.Spec.StorageClassName != "gold" {
		t.Fatalf("class %v", c.Spec.StorageClassName)
	}
	grow := func(name string) error {
		_, err := claims.Patch(ctx, name, "application/merge-patch+json", []byte(`{"spec":{"resources":{"requests":{"storage":"2Gi"}}}}`), metav1.PatchOptions{})
		return err
	}
	stiff := claim("s", "1Gi")
	name := "stiff"
	stiff.Spec.StorageClassName = &name
	must(claims.Create(ctx, stiff, metav1.CreateOptions{}))(t)
	for _, name := range []string{"c", "s"} {
		must(claims.Patch(ctx, name, "application/merge-patch+json", []byte(`{"status":{"phase":"Bound"}}`), metav1.PatchOptions{}, "status"))(t)
	}
	if err := grow("c"); err != nil {
		t.Error(err)
	}
	refused(t, grow("s"), `persistentvolumeclaims "s" is forbidden: only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize`)
}

func TestNodesAndTopology(t *testing.T) {
	w := start(t, plugins.Config{})
	node := must(w.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{
		corev1.LabelTopologyZone: "z1", corev1.LabelTopologyRegion: "r1", "other": "o",
	}}}, metav1.CreateOptions{}))(t)
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != corev1.TaintNodeNotReady || node.Spec.Taints[0].Effect != corev1.TaintEffectNoSchedule {
		t.Errorf("taints %v", node.Spec.Taints)
	}
	must(w.pod(t, "p", nil))(t)
	if err := w.CoreV1().Pods("x").Bind(t.Context(), &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := must(w.CoreV1().Pods("x").Get(t.Context(), "p", metav1.GetOptions{}))(t)
	if pod.Labels[corev1.LabelTopologyZone] != "z1" || pod.Labels[corev1.LabelTopologyRegion] != "r1" || pod.Labels["other"] != "" {
		t.Errorf("labels %v", pod.Labels)
	}
}

func TestPodSecurity(t *testing.T) {
	w := start(t, plugins.Config{})
	label := func(labels string) {
		t.Helper()
		must(w.CoreV1().Namespaces().Patch(t.Context(), "x", "application/merge-patch+json", []byte(`{"metadata":{"labels":`+labels+`}}`), metav1.PatchOptions{}))(t)
	}
	yes := true
	privileged := func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: &yes} }
	must(w.pod(t, "before", privileged))(t)
	label(`{"pod-security.kubernetes.io/enforce":"baseline"}`)
	if len(w.warnings.texts) != 2 || w.warnings.texts[0] != `existing pods in namespace "x" violate the new PodSecurity enforce level "baseline:latest"` || w.warnings.texts[1] != "before: privileged" {
		t.Errorf("warnings %q", w.warnings.texts)
	}
	_, err := w.pod(t, "p", privileged)
	refused(t, err, `pods "p" is forbidden: violates PodSecurity "baseline:latest": privileged (container "c" must not set securityContext.privileged=true)`)
	must(w.pod(t, "q", nil))(t)
	w.warnings.texts = nil
	label(`{"pod-security.kubernetes.io/enforce":null,"pod-security.kubernetes.io/warn":"restricted","pod-security.kubernetes.io/warn-version":"v1.25"}`)
	w.warnings.texts = nil
	must(w.pod(t, "r", nil))(t)
	if len(w.warnings.texts) != 1 || !strings.HasPrefix(w.warnings.texts[0], `would violate PodSecurity "restricted:v1.25": allowPrivilegeEscalation != false (containers "i", "c" must set`) {
		t.Errorf("warnings %q", w.warnings.texts)
	}
}

// What this server has been told, it knows at once: no write is judged by the cache of a moment before.
func TestReader_OwnWrites(t *testing.T) {
	w := start(t, plugins.Config{})
	for i := range 20 {
		name := fmt.Sprintf("n%d", i)
		must(w.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}))(t)
		must(w.CoreV1().ConfigMaps(name).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}))(t)
		if err := w.CoreV1().Namespaces().Delete(t.Context(), name, metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := w.CoreV1().ConfigMaps(name).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "d"}}, metav1.CreateOptions{})
		refused(t, err, fmt.Sprintf(`configmaps "d" is forbidden: unable to create new content in namespace %s because it is being terminated`, name))
	}
}

func TestOptional(t *testing.T) {
	w := start(t, plugins.Config{Enable: []string{"AlwaysPullImages", "LimitPodHardAntiAffinityTopology", "PodNodeSelector", "ExtendedResourceToleration", "DenyServiceExternalIPs"}})
	must(w.CoreV1().Namespaces().Patch(t.Context(), "x", "application/merge-patch+json",
		[]byte(`{"metadata":{"annotations":{"scheduler.alpha.kubernetes.io/node-selector":"env=test"}}}`), metav1.PatchOptions{}))(t)
	device := corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}
	pod := must(w.pod(t, "p", func(p *corev1.Pod) {
		p.Spec.Containers[0].ImagePullPolicy = corev1.PullNever
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: device, Limits: device}
	}))(t)
	if pod.Spec.Containers[0].ImagePullPolicy != corev1.PullAlways || pod.Spec.NodeSelector["env"] != "test" || pod.Spec.Tolerations[len(pod.Spec.Tolerations)-1].Key != "example.com/gpu" {
		t.Errorf("policy %s, selector %v, tolerations %v", pod.Spec.Containers[0].ImagePullPolicy, pod.Spec.NodeSelector, pod.Spec.Tolerations)
	}
	_, err := w.pod(t, "q", func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{"env": "prod"} })
	refused(t, err, `pods "q" is forbidden: pod node label selector conflicts with its namespace node label selector`)
	_, err = w.CoreV1().Services("x").Create(t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "s"}, Spec: corev1.ServiceSpec{
		ExternalIPs: []string{"1.2.3.4"}, Ports: []corev1.ServicePort{{Port: 80}},
	}}, metav1.CreateOptions{})
	refused(t, err, `services "s" is forbidden: Use of external IPs is denied by admission control.`)
}

func TestNames(t *testing.T) {
	for name, want := range map[string]string{
		"Nonsense":                 `enable-admission-plugins plugin "Nonsense" is unknown`,
		"MutatingAdmissionWebhook": `enable-admission-plugins plugin "MutatingAdmissionWebhook" is not part of this server`,
	} {
		if _, err := plugins.New(plugins.Config{Enable: []string{name}}); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if _, err := plugins.New(plugins.Config{Disable: []string{"MutatingAdmissionWebhook"}}); err != nil {
		t.Error(err)
	}
}

var (
	_ rest.WarningHandler = &warnings{}
)
