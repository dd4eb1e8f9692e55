package localvolumes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/informer"
	"vigil/informer/workqueue"
	"vigil/internal/localvolume"
	"vigil/kubelet/untrusted"
)

// removeTime is how long one volume is removed while others wait, and removePause how long it waits for its next turn.
const (
	removeTime  = 20 * time.Second
	removePause = time.Second
)

// Config says what a node's part works with. All but Logger are needed.
type Config struct {
	Dir    string // absolute; made when it is not there
	Client kubernetes.Interface
	Node   informer.Lister[*corev1.Node] // which has the node's own Node alone
	Logger *slog.Logger
}

// Directory is a node's directory of volumes.
type Directory struct {
	config Config
	root   *os.Root
	queue  *workqueue.Queue
}

// New opens the directory. It registers a handler, so it must be called before the informer runs.
func New(config Config) (*Directory, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if err := os.MkdirAll(config.Dir, 0o711); err != nil {
		return nil, fmt.Errorf("directory of local volumes: %w", err)
	}
	root, err := os.OpenRoot(config.Dir)
	if err != nil {
		return nil, fmt.Errorf("directory of local volumes: %w", err)
	}
	d := &Directory{config: config, root: root, queue: workqueue.New(workqueue.Config{Name: "localvolumes", Logger: config.Logger})}
	config.Node.Informer().AddHandler(informer.EventHandler{
		OnAdd: func(o *informer.Object, _ bool) { d.queue.Add(o.NamespacedName()) },
		OnUpdate: func(old, o *informer.Object) {
			for _, name := range []string{localvolume.DirAnnotation, localvolume.RemoveAnnotation, localvolume.RemovedAnnotation} {
				was, _ := old.Annotation(name)
				if is, _ := o.Annotation(name); is != was {
					d.queue.Add(o.NamespacedName())
					return
				}
			}
		},
	})
	return d, nil
}

// Run removes volumes until ctx ends. It runs once.
func (d *Directory) Run(ctx context.Context) error {
	defer d.root.Close()
	return d.queue.Run(ctx, 1, d.reconcile)
}

// reconcile removes what is to be removed, and makes the Node say what is so.
func (d *Directory) reconcile(ctx context.Context, key types.NamespacedName) (time.Duration, error) {
	node, err := d.config.Node.Get("", key.Name)
	if apierrors.IsNotFound(err) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	var gone []string
	var errs []error
	var again time.Duration
	for _, name := range localvolume.Names(node.Annotations[localvolume.RemoveAnnotation]) {
		err := d.remove(ctx, name)
		switch {
		case err == nil:
			gone = append(gone, name)
		case ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
			again = removePause
		default:
			errs = append(errs, err)
		}
	}
	want := map[string]any{localvolume.DirAnnotation: d.config.Dir, localvolume.RemovedAnnotation: nil}
	if len(gone) > 0 {
		want[localvolume.RemovedAnnotation] = localvolume.Annotation(gone)
	}
	return again, errors.Join(append(errs, d.annotate(ctx, node, want))...)
}

// remove removes a volume with all that is in it. One that was never mounted is gone already. One with very many files is not removed at once, but
// it has fewer when remove fails with context.DeadlineExceeded.
func (d *Directory) remove(ctx context.Context, name string) error {
	if name != filepath.Base(name) || name == "." || name == ".." {
		return fmt.Errorf("remove local volume %q: it is no name of a directory", name)
	}
	if _, err := d.root.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, removeTime)
	defer cancel()
	if err := untrusted.Remove(ctx, filepath.Join(d.config.Dir, name)); err != nil {
		return fmt.Errorf("remove local volume %s: %w", name, err)
	}
	d.config.Logger.Info("the kubelet removed a local volume", "volume", name)
	return nil
}

// annotate makes annotations of the node what they should be; nil removes one.
func (d *Directory) annotate(ctx context.Context, node *corev1.Node, want map[string]any) error {
	for name, value := range want {
		have, ok := node.Annotations[name]
		if value == nil && !ok || ok && value == have {
			delete(want, name)
		}
	}
	if len(want) == 0 {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": want}})
	if err != nil {
		return err
	}
	if _, err := d.config.Client.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotate node %s: %w", node.Name, err)
	}
	return nil
}
