package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

var seedEtcd, seedTemplate, seedSave string

// storedPrefix begins every object that Kubernetes stores as protobuf.
var storedPrefix = []byte("k8s\x00")

// seed writes --pods pods into an etcd that no server uses yet, each in a write
// of its own, as servers do. All are the template with what the load generator
// varies set anew, so two servers can begin with the same bytes, and a
// population takes seconds. The template is what the upstream library stored
// for pod 0 (--save).
func seed() error {
	ctx := context.Background()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{seedEtcd}, DialTimeout: 10 * time.Second})
	if err != nil {
		return err
	}
	defer client.Close()
	if seedSave != "" {
		got, err := client.Get(ctx, podKey(0))
		if err != nil {
			return err
		}
		if len(got.Kvs) != 1 {
			return fmt.Errorf("%s is not in etcd", podKey(0))
		}
		return os.WriteFile(seedSave, got.Kvs[0].Value, 0o644)
	}
	stored, err := os.ReadFile(seedTemplate)
	if err != nil {
		return err
	}
	var envelope runtime.Unknown
	var template corev1.Pod
	if !bytes.HasPrefix(stored, storedPrefix) {
		return fmt.Errorf("%s: not an object in protobuf", seedTemplate)
	}
	if err := envelope.Unmarshal(stored[len(storedPrefix):]); err != nil {
		return err
	}
	if err := template.Unmarshal(envelope.Raw); err != nil {
		return err
	}
	return each(o.pods, 64, func(i int) error {
		p, err := podLike(&template, i)
		if err != nil {
			return err
		}
		e := envelope
		if e.Raw, err = p.Marshal(); err != nil {
			return err
		}
		value, err := e.Marshal()
		if err != nil {
			return err
		}
		_, err = client.Put(ctx, podKey(i), string(storedPrefix)+string(value))
		return err
	})
}

func podKey(i int) string { return "/registry/pods/" + podNS(i) + "/" + podName(i) }

// podLike is pod i as a server would store it that had been sent podBody(i), given what it stored for another pod.
func podLike(template *corev1.Pod, i int) (*corev1.Pod, error) {
	p := template.DeepCopy()
	var want corev1.Pod
	if err := json.Unmarshal(podBody(i, true, 0), &want); err != nil {
		return nil, err
	}
	p.Name, p.Namespace, p.UID = want.Name, want.Namespace, types.UID(fmt.Sprintf("6c1f0e5e-58c6-4a4e-9a0c-%012x", i))
	p.Labels, p.Annotations, p.OwnerReferences = want.Labels, want.Annotations, want.OwnerReferences
	p.Spec.NodeName = want.Spec.NodeName
	p.Status = want.Status
	return p, nil
}
