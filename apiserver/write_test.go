package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/retry"

	"vigil/apiserver/apiservertest"
)

// eachEncoding runs a test with clients that speak JSON and protobuf.
func eachEncoding(t *testing.T, test func(t *testing.T, c *kubernetes.Clientset)) {
	for _, media := range []string{"application/json", "application/vnd.kubernetes.protobuf"} {
		t.Run(media[len("application/"):], func(t *testing.T) {
			config := apiservertest.Start(t).Admin()
			config.ContentType = media
			test(t, newClientset(t, config))
		})
	}
}

func newClientset(t *testing.T, config *rest.Config) *kubernetes.Clientset {
	t.Helper()
	c, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "ns"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return c
}

func testPod(name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "example.com/i:v1"}}},
	}
}

// A pod's life as its actors write it: user, scheduler, kubelet.
func TestWrite_PodLife(t *testing.T) {
	eachEncoding(t, func(t *testing.T, c *kubernetes.Clientset) {
		ctx := t.Context()
		pods := c.CoreV1().Pods("ns")
		pod, err := pods.Create(ctx, testPod("p"), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if pod.Status.Phase != corev1.PodPending || pod.Generation != 1 || pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || pod.Namespace != "ns" {
			t.Errorf("created %+v", pod)
		}
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: "n"}}
		if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := pods.Bind(ctx, binding, metav1.CreateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("bound twice: %v", err)
		}
		patch := fmt.Sprintf(`{"metadata":{"uid":"%s"},"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`, pod.UID)
		pod, err = pods.Patch(ctx, "p", types.StrategicMergePatchType, []byte(patch), metav1.PatchOptions{}, "status")
		if err != nil {
			t.Fatal(err)
		}
		if pod.Spec.NodeName != "n" || pod.Status.Phase != corev1.PodRunning || len(pod.Status.Conditions) != 2 || pod.Generation != 1 {
			t.Errorf("running %+v", pod)
		}
		pod.Labels = map[string]string{"a": "b"}
		if _, err = pods.Update(ctx, pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := pods.Delete(ctx, "p", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		if pod, err = pods.Get(ctx, "p", metav1.GetOptions{}); err != nil || pod.DeletionTimestamp == nil || *pod.DeletionGracePeriodSeconds != 30 || pod.Labels["a"] != "b" {
			t.Fatalf("deleted: %v, %+v", err, pod)
		}
		none := int64(0)
		final := metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: metav1.NewUIDPreconditions("other")}
		if err := pods.Delete(ctx, "p", final); !apierrors.IsConflict(err) {
			t.Errorf("deleted another pod: %v", err)
		}
		final.Preconditions = metav1.NewUIDPreconditions(string(pod.UID))
		if err := pods.Delete(ctx, "p", final); err != nil {
			t.Fatal(err)
		}
		if _, err := pods.Get(ctx, "p", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("still there: %v", err)
		}
	})
}

// A patch that gives a pod a node is a binding: it sets the condition, and it works once.
func TestWrite_PatchBinds(t *testing.T) {
	c := newClientset(t, apiservertest.Start(t).Admin())
	pods := c.CoreV1().Pods("ns")
	if _, err := pods.Create(t.Context(), testPod("p"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	patch := func(node string) (*corev1.Pod, error) {
		return pods.Patch(t.Context(), "p", types.MergePatchType, []byte(`{"spec":{"nodeName":"`+node+`"}}`), metav1.PatchOptions{})
	}
	pod, err := patch("n")
	if err != nil {
		t.Fatal(err)
	}
	scheduled := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
	})
	if pod.Spec.NodeName != "n" || !scheduled {
		t.Errorf("bound %+v", pod)
	}
	if _, err := patch("m"); !apierrors.IsInvalid(err) {
		t.Errorf("moved: %v", err)
	}
}

func TestWrite_Scale(t *testing.T) {
	eachEncoding(t, func(t *testing.T, c *kubernetes.Clientset) {
		ctx := t.Context()
		deployments := c.AppsV1().Deployments("ns")
		labels := map[string]string{"app": "a"}
		d, err := deployments.Create(ctx, &appsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Name: "d"},
			Spec: appsv1.DeploymentSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels},
				Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: testPod("").Spec},
			},
		}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if *d.Spec.Replicas != 1 || d.Generation != 1 {
			t.Errorf("created %+v", d)
		}
		scale, err := deployments.GetScale(ctx, "d", metav1.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		scale.Spec.Replicas = 3
		if scale, err = deployments.UpdateScale(ctx, "d", scale, metav1.UpdateOptions{}); err != nil || scale.Spec.Replicas != 3 {
			t.Fatalf("%v, %+v", err, scale)
		}
		stale := *scale
		stale.ResourceVersion = d.ResourceVersion
		if _, err := deployments.UpdateScale(ctx, "d", &stale, metav1.UpdateOptions{}); !apierrors.IsConflict(err) {
			t.Errorf("scaled from an old version: %v", err)
		}
		d, err = deployments.Get(ctx, "d", metav1.GetOptions{})
		if err != nil || *d.Spec.Replicas != 3 || d.Generation != 2 {
			t.Errorf("%v, %+v", err, d)
		}
		d.Status.Replicas = 2
		if d, err = deployments.UpdateStatus(ctx, d, metav1.UpdateOptions{}); err != nil || d.Status.Replicas != 2 || d.Generation != 2 {
			t.Errorf("%v, %+v", err, d)
		}
		if err := deployments.Delete(ctx, "d", metav1.DeleteOptions{PropagationPolicy: ptr(metav1.DeletePropagationForeground)}); err != nil {
			t.Fatal(err)
		}
		d, err = deployments.Get(ctx, "d", metav1.GetOptions{})
		if err != nil || !slices.Contains(d.Finalizers, metav1.FinalizerDeleteDependents) || d.DeletionTimestamp == nil {
			t.Errorf("%v, %+v", err, d)
		}
	})
}

func TestWrite_NamespaceLife(t *testing.T) {
	eachEncoding(t, func(t *testing.T, c *kubernetes.Clientset) {
		ctx := t.Context()
		if err := c.CoreV1().Namespaces().Delete(ctx, "ns", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		_, err := c.CoreV1().ConfigMaps("ns").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{})
		if !apierrors.IsForbidden(err) || !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			t.Errorf("created in a terminating namespace: %v", err)
		}
		ns, err := c.CoreV1().Namespaces().Get(ctx, "ns", metav1.GetOptions{})
		if err != nil || ns.Status.Phase != corev1.NamespaceTerminating {
			t.Fatalf("%v, %+v", err, ns)
		}
		ns.Spec.Finalizers = nil
		if _, err := c.CoreV1().Namespaces().Finalize(ctx, ns, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.CoreV1().Namespaces().Get(ctx, "ns", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
			t.Errorf("still there: %v", err)
		}
	})
}

func TestWrite_DeleteCollection(t *testing.T) {
	c := newClientset(t, apiservertest.Start(t).Admin())
	ctx := t.Context()
	maps := c.CoreV1().ConfigMaps("ns")
	for i := range 20 {
		m := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c%02d", i), Labels: map[string]string{"half": fmt.Sprint(i % 2)}}}
		if _, err := maps.Create(ctx, m, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remaining := func() int {
		list, err := maps.List(ctx, metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return len(list.Items)
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "half=1"}); err != nil || remaining() != 10 {
		t.Fatalf("%v, %d left", err, remaining())
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{FieldSelector: "metadata.name=c04"}); err != nil || remaining() != 9 {
		t.Fatalf("%v, %d left", err, remaining())
	}
	list := &corev1.ConfigMapList{}
	err := c.CoreV1().RESTClient().Delete().Namespace("ns").Resource("configmaps").Param("limit", "4").Do(ctx).Into(list)
	if err != nil || len(list.Items) != 4 || list.Continue == "" || remaining() != 5 {
		t.Errorf("%v, deleted %d, continue %q, %d left", err, len(list.Items), list.Continue, remaining())
	}
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{}); err != nil || remaining() != 0 {
		t.Fatalf("%v, %d left", err, remaining())
	}
}

// client-go's usual loop around Update: nothing is lost, however many write.
func TestWrite_RetryOnConflict(t *testing.T) {
	c := newClientset(t, apiservertest.Start(t).Admin())
	ctx := t.Context()
	maps := c.CoreV1().ConfigMaps("ns")
	if _, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}, Data: map[string]string{"n": "0"}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	const writers = 8
	errs := make(chan error, writers)
	for range writers {
		go func() {
			errs <- retry.RetryOnConflict(wait.Backoff{Steps: 100}, func() error {
				m, err := maps.Get(ctx, "c", metav1.GetOptions{})
				if err != nil {
					return err
				}
				var n int
				if _, err := fmt.Sscan(m.Data["n"], &n); err != nil {
					return err
				}
				m.Data["n"] = fmt.Sprint(n + 1)
				_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
				return err
			})
		}()
	}
	for range writers {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	if m, err := maps.Get(ctx, "c", metav1.GetOptions{}); err != nil || m.Data["n"] != fmt.Sprint(writers) {
		t.Errorf("%v, %v", err, m.Data)
	}
}

// warningText collects Warning headers.
type warningText struct{ texts []string }

func (w *warningText) HandleWarningHeader(_ int, _ string, text string) {
	w.texts = append(w.texts, text)
}

func TestWrite_Wire(t *testing.T) {
	s := apiservertest.Start(t)
	config := s.Admin()
	warned := &warningText{}
	config.WarningHandler = warned
	c := newClientset(t, config)
	do := func(verb, path, contentType, body string) (int, string, error) {
		t.Helper()
		var code int
		data, err := c.CoreV1().RESTClient().Verb(verb).AbsPath(strings.Split(path, "?")[0]).
			SetHeader("Content-Type", contentType).SetHeader("Accept", "application/json").
			Body([]byte(body)).Do(context.Background()).StatusCode(&code).Raw()
		var status apierrors.APIStatus
		if errors.As(err, &status) {
			code = int(status.Status().Code)
		}
		return code, string(data), err
	}
	const maps = "/api/v1/namespaces/ns/configmaps"
	for _, r := range []struct {
		verb, path, contentType, body string
		code                          int
		text                          string // in the answer
	}{
		{"POST", maps, "application/yaml", "kind: ConfigMap\nmetadata:\n  name: a\n", 201, `"name":"a"`},
		{"POST", maps, "application/yaml", "kind: ConfigMap\nmetadata:\n  name: a\n", 409, `configmaps \"a\" already exists`},
		{"POST", maps, "application/json", `{"metadata":{"name":"b"},"zzz":1}`, 201, `"name":"b"`},
		{"POST", maps, "text/plain", `x`, 415, "application/vnd.kubernetes.protobuf"},
		{"POST", maps, "application/json", strings.Repeat(" ", 3<<20+1), 413, "Request entity too large: limit is 3145728"},
		{"PUT", maps + "/a", "application/json", `{"metadata":{"name":"a"},"data":{"x":"y"}}`, 200, `"x":"y"`},
		{"PATCH", maps + "/a", "application/merge-patch+json", `{"data":{"x":"z"}}`, 200, `"x":"z"`},
		{"PATCH", maps + "/a", "application/json", `{}`, 415, "application/json-patch+json"},
		{"PATCH", maps + "/none", "application/merge-patch+json", `{}`, 404, `configmaps \"none\" not found`},
		{"DELETE", maps + "/b", "application/json", ``, 200, `"kind":"configmaps"`},
		{"DELETE", maps + "/a", "application/json", `{"kind":"DeleteOptions","apiVersion":"v1","propagationPolicy":"Orphan"}`, 200, `"finalizers":["orphan"]`},
		{"PUT", "/api/v1/namespaces/ns/configmaps/a/status", "application/json", `{}`, 404, "could not find"},
		{"DELETE", "/api/v1/namespaces/kube-system", "application/json", ``, 404, `namespaces \"kube-system\" not found`},
		{"POST", "/api/v1/namespaces", "application/json", `{"metadata":{"name":"kube-system"}}`, 201, `"name":"kube-system"`},
		{"DELETE", "/api/v1/namespaces/kube-system", "application/json", ``, 403, "this namespace may not be deleted"},
	} {
		code, text, err := do(r.verb, r.path, r.contentType, r.body)
		if code != r.code || !strings.Contains(text, r.text) && !strings.Contains(fmt.Sprint(err), strings.ReplaceAll(r.text, `\"`, `"`)) {
			t.Errorf("%s %s %s\ngot  %d %s (%v)\nwant %d %s", r.verb, r.path, r.contentType, code, text, err, r.code, r.text)
		}
	}
	if !slices.Contains(warned.texts, `unknown field "zzz"`) {
		t.Errorf("warnings %q", warned.texts)
	}
}

func ptr[T any](v T) *T { return &v }
