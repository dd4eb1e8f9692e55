package informer_test

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"vigil/informer"
	"vigil/informer/workqueue"
)

// A controller that is told which ReplicaSets to look at, by events of ReplicaSets and of the pods they control, and looks
// at them through listers.
func Example() {
	factory, err := informer.NewFactory(&rest.Config{Host: "https://127.0.0.1:6443"}, informer.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	replicaSets := informer.ListerFor[*appsv1.ReplicaSet](factory.Informer(informer.ResourceOf[*appsv1.ReplicaSet]()))
	pods := informer.ListerFor[*corev1.Pod](factory.Informer(informer.ResourceOf[*corev1.Pod]()))
	pods.Informer().AddIndex("controller", informer.ByControllerUID)

	queue := workqueue.New(workqueue.Config{Name: "replicaset"})
	replicaSets.Informer().AddHandler(informer.Keys(queue.Add))
	pods.Informer().AddHandler(informer.ControllerKeys("apps", "ReplicaSet", queue.Add))

	reconcile := func(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
		rs, err := replicaSets.Get(key.Namespace, key.Name)
		if apierrors.IsNotFound(err) {
			return 0, nil // it is gone: nothing to do
		}
		if err != nil {
			return 0, err
		}
		owned, err := pods.ByIndex("controller", string(rs.UID))
		if err != nil {
			return 0, err
		}
		fmt.Println(key, "has", len(owned), "pods") // create or delete what the difference asks for
		return 0, nil
	}

	run := func(ctx context.Context) error { // as the controller's Run
		go func() { _ = factory.Run(ctx) }() // once for all controllers
		if err := factory.WaitForSync(ctx); err != nil {
			return err
		}
		return queue.Run(ctx, 5, reconcile)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // the example has no server
	fmt.Println(run(ctx))
	// Output: waiting for the first list of pods, replicasets.apps: context canceled
}
