package object

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

type runtimeKind = schema.GroupVersionKind

// podType has the selectable fields of pods.
func podType() *Type {
	return &Type{
		APIVersion: "v1", Kind: "Pod", Namespaced: true,
		New: func() runtime.Object { return &corev1.Pod{} },
		Fields: []Field{
			{Label: "spec.nodeName", Proto: []int32{2, 10}},
			{Label: "spec.hostNetwork", Proto: []int32{2, 11}, Default: "false"},
			{Label: "status.phase", Proto: []int32{3, 1}},
			{Label: "status.podIP", Proto: []int32{3, 6}},
			{Label: "status.podIPs", Proto: []int32{3, 12, 1}},
			{Label: "metadata.generation", Proto: []int32{1, 7}, Default: "0"},
			{Label: "first", Get: func(v *Version) string { return v.Name()[:1] }},
		},
	}
}

// testPod is a pod as one finds it in a cluster, managed fields and status included: 4.5 KB of JSON.
func testPod(name string) *corev1.Pod {
	created := metav1.NewTime(time.Date(2026, 5, 4, 3, 2, 1, 0, time.UTC))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, GenerateName: "web-7d9c8b6f5-", Namespace: "ns", UID: types.UID("6f1d2c3b-0000-4000-8000-" + fmt.Sprintf("%012x", len(name))),
			Generation: 1, CreationTimestamp: created,
			Labels:      map[string]string{"app": "web", "pod-template-hash": "7d9c8b6f5", "tier": "frontend", "zone": "eu-1a"},
			Annotations: map[string]string{"prometheus.io/scrape": "true", "checksum/config": "3b0c44298fc1c149afbf4c8996fb924"},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-7d9c8b6f5", UID: "1f1d2c3b-0000-4000-8000-000000000001",
				Controller: new(true), BlockOwnerDeletion: new(true),
			}},
			ManagedFields: []metav1.ManagedFieldsEntry{
				managedFields("kube-controller-manager", "", created, `{"f:metadata":{"f:generateName":{},"f:labels":{".":{},"f:app":{},"f:pod-template-hash":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"1f1d2c3b-0000-4000-8000-000000000001\"}":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:env":{".":{},"k:{\"name\":\"MODE\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:imagePullPolicy":{},"f:name":{},"f:ports":{".":{},"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{},"f:protocol":{}}},"f:resources":{".":{},"f:limits":{".":{},"f:cpu":{},"f:memory":{}},"f:requests":{".":{},"f:cpu":{},"f:memory":{}}}}},"f:dnsPolicy":{},"f:enableServiceLinks":{},"f:restartPolicy":{},"f:schedulerName":{},"f:securityContext":{},"f:terminationGracePeriodSeconds":{}}}`),
				managedFields("kubelet", "status", created, `{"f:status":{"f:conditions":{"k:{\"type\":\"ContainersReady\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}},"k:{\"type\":\"Ready\"}":{".":{},"f:lastProbeTime":{},"f:lastTransitionTime":{},"f:status":{},"f:type":{}}},"f:containerStatuses":{},"f:hostIP":{},"f:phase":{},"f:podIP":{},"f:podIPs":{".":{},"k:{\"ip\":\"10.1.2.3\"}":{".":{},"f:ip":{}}},"f:startTime":{}}}`),
			},
		},
		Spec: corev1.PodSpec{
			Volumes: []corev1.Volume{{Name: "kube-api-access", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{
					{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: new(int64(3607)), Path: "token"}},
					{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"}, Items: []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}}}},
				}, DefaultMode: new(int32(420)),
			}}}},
			Containers: []corev1.Container{{
				Name: "web", Image: "registry.example.com/team/web:v1.24.3", Args: []string{"--listen=:8080", "--log=<stderr>"},
				Ports: []corev1.ContainerPort{{ContainerPort: 8080, Protocol: corev1.ProtocolTCP}},
				Env:   []corev1.EnvVar{{Name: "MODE", Value: "production"}},
				Resources: corev1.ResourceRequirements{
					Limits:   corev1.ResourceList{"cpu": resource.MustParse("500m"), "memory": resource.MustParse("256Mi")},
					Requests: corev1.ResourceList{"cpu": resource.MustParse("100m"), "memory": resource.MustParse("128Mi")},
				},
				VolumeMounts:           []corev1.VolumeMount{{Name: "kube-api-access", ReadOnly: true, MountPath: "/var/run/secrets/kubernetes.io/serviceaccount"}},
				TerminationMessagePath: "/dev/termination-log", TerminationMessagePolicy: "File", ImagePullPolicy: "IfNotPresent",
			}},
			RestartPolicy: "Always", TerminationGracePeriodSeconds: new(int64(30)), DNSPolicy: "ClusterFirst", ServiceAccountName: "default",
			NodeName: "node-17", SecurityContext: &corev1.PodSecurityContext{}, SchedulerName: "default-scheduler",
			Tolerations: []corev1.Toleration{
				{Key: "node.kubernetes.io/not-ready", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))},
				{Key: "node.kubernetes.io/unreachable", Operator: "Exists", Effect: "NoExecute", TolerationSeconds: new(int64(300))},
			},
			Priority: new(int32(0)), EnableServiceLinks: new(true), PreemptionPolicy: new(corev1.PreemptLowerPriority),
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, HostIP: "192.168.0.17", PodIP: "10.1.2.3", PodIPs: []corev1.PodIP{{IP: "10.1.2.3"}, {IP: "fd00::3"}},
			StartTime: &created, QOSClass: "Burstable",
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "web", Ready: true, Started: new(true), Image: "registry.example.com/team/web:v1.24.3",
				ImageID:     "registry.example.com/team/web@sha256:" + strings.Repeat("0123456789abcdef", 4),
				ContainerID: "containerd://" + strings.Repeat("fedcba9876543210", 4),
				State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: created}},
			}},
		},
	}
	for _, c := range []corev1.PodConditionType{"PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"} {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: c, Status: "True", LastTransitionTime: created})
	}
	return pod
}

func managedFields(manager, subresource string, at metav1.Time, fields string) metav1.ManagedFieldsEntry {
	raw := metav1.NewFieldsV1(fields)
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: "Update", APIVersion: "v1", Time: &at, FieldsType: "FieldsV1", FieldsV1: raw, Subresource: subresource,
	}
}

// podVersion is testPod as it comes from etcd.
func podVersion(tb testing.TB, name string, rev int64) *Version {
	typ := podType()
	stored, err := EncodeStored(typ, testPod(name))
	if err != nil {
		tb.Fatal(err)
	}
	v, err := NewVersion(typ, "/registry/pods/ns/"+name, rev, stored)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}
