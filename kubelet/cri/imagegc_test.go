package cri

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet"
)

// have returns which of these images are on the node.
func (n *node) have(images ...string) []string {
	n.t.Helper()
	var found []string
	for _, name := range images {
		image, err := n.images.inspect(n.context(), &runtimeapi.ImageSpec{Image: name})
		if err != nil {
			n.t.Fatal(err)
		}
		if image != nil {
			found = append(found, name)
		}
	}
	return found
}

// Images go when the disk fills up: the one unused for the longest time first, never one in use or pinned, none too young.
func TestImageGC(t *testing.T) {
	n := startNode(t, nil)
	r := startRegistry(t)
	now, available := time.Now(), int64(0)
	recorder := record.NewFakeRecorder(10)
	gc, err := n.NewImageGC(ImageGCConfig{
		Node: &corev1.ObjectReference{Kind: "Node", Name: "n"}, Recorder: recorder,
		usage: func(string) (int64, int64, error) { return 100 << 30, available, nil },
		now:   func() time.Time { return now },
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range []string{"open/first:1", "open/second:1", "open/used:1"} {
		image := r.push(name)
		names = append(names, image)
		pod := newPod("user-"+name[5:10], []string{"sleep", "1000"})
		c := &pod.Spec.Containers[0]
		c.Image = image
		if name != "open/used:1" {
			if _, err := n.EnsureImage(n.context(), kubelet.ImageRequest{Pod: pod, Container: c}); err != nil {
				t.Fatal(err)
			}
		} else {
			n.run(pod)
		}
		if err := gc.Collect(n.context()); err == nil { // with everything full, but too young to go
			t.Error("nothing can be freed and nobody complains")
		}
		now = now.Add(time.Second)
	}
	if got := n.have(names...); len(got) != 3 {
		t.Fatalf("there are only %v", got)
	}
	select {
	case event := <-recorder.Events:
		if !strings.HasPrefix(event, "Warning FreeDiskSpaceFailed Failed to garbage collect required amount of images. Attempted to free 21474836480 bytes, but only found 0 bytes eligible to free.") {
			t.Errorf("the event is %q", event)
		}
	default:
		t.Error("there is no event")
	}
	now = now.Add(time.Hour)
	available = 16 << 30 // 84 % are in use
	if err := gc.Collect(n.context()); err != nil || len(n.have(names...)) != 3 {
		t.Errorf("with 84 %%: %v, %v", err, n.have(names...))
	}
	available = 20<<30 - 1
	gc.config.HighThreshold = 80 // one byte has to go
	if err := gc.Collect(n.context()); err != nil || !slices.Equal(n.have(names...), names[1:]) {
		t.Errorf("with one byte too many: %v, %v", err, n.have(names...))
	}
	if err := gc.Free(n.context()); err != nil {
		t.Fatal(err)
	}
	pinned := []string{"demo:1", "vigil.internal/pause:1"}
	if got := n.have(append(names, pinned...)...); !slices.Equal(got, append(names[2:3:3], pinned...)) {
		t.Errorf("Free left %v", got)
	}
}

// A file system that says it has no room at all is told of in upstream's words, and nothing is removed for it.
func TestImageGC_NoCapacity(t *testing.T) {
	n := startNode(t, nil)
	recorder := record.NewFakeRecorder(10)
	gc, err := n.NewImageGC(ImageGCConfig{
		Node: &corev1.ObjectReference{Kind: "Node", Name: "n"}, Recorder: recorder,
		usage: func(string) (int64, int64, error) { return 0, 10, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	const text = "invalid capacity 0 on image filesystem"
	if err := gc.Collect(n.context()); err == nil || err.Error() != text {
		t.Errorf("collected with %v", err)
	}
	select {
	case event := <-recorder.Events:
		if event != "Warning InvalidDiskCapacity "+text {
			t.Errorf("the event is %q", event)
		}
	default:
		t.Error("there is no event")
	}
	if got := n.have("demo:1"); len(got) != 1 {
		t.Errorf("left are %v", got)
	}
}

// An image that has not been used for long goes, however much space there is.
func TestImageGC_MaxAge(t *testing.T) {
	n := startNode(t, nil)
	r := startRegistry(t)
	now := time.Now()
	gc, err := n.NewImageGC(ImageGCConfig{
		MaxAge: time.Hour, now: func() time.Time { return now },
		usage: func(string) (int64, int64, error) { return 100, 99, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	pod := newPod("old", nil)
	pod.Spec.Containers[0].Image = r.push("open/old:1")
	if _, err := n.EnsureImage(context.Background(), kubelet.ImageRequest{Pod: pod, Container: &pod.Spec.Containers[0]}); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		left  int
	}{{0, 1}, {time.Hour, 1}, {time.Minute, 0}} {
		now = now.Add(step.after)
		if err := gc.Collect(n.context()); err != nil {
			t.Fatal(err)
		}
		if got := n.have(pod.Spec.Containers[0].Image); len(got) != step.left {
			t.Errorf("after another %v: %v", step.after, got)
		}
	}
}

func TestNewImageGC_Invalid(t *testing.T) {
	r, err := New(Config{Endpoint: "unix:///nowhere.sock"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for _, test := range []struct {
		high, low int
		want      string
	}{
		{101, 80, "invalid HighThresholdPercent 101"}, {85, -1, "invalid LowThresholdPercent -1"}, {70, 80, "LowThresholdPercent 80 can not be higher than HighThresholdPercent 70"},
	} {
		if _, err := r.NewImageGC(ImageGCConfig{HighThreshold: test.high, LowThreshold: test.low}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d, %d: %v", test.high, test.low, err)
		}
	}
}

func TestLargest(t *testing.T) {
	var images []*runtimeapi.Image
	for i := range 60 {
		images = append(images, &runtimeapi.Image{Id: fmt.Sprint(i), Size: uint64(i), RepoTags: []string{fmt.Sprintf("image:%d", i)}})
	}
	images = append(images, &runtimeapi.Image{Id: "nameless", Size: 1000}, &runtimeapi.Image{
		Size: 100, RepoTags: []string{"a:2", "a:1", "a:3", "a:4", "a:5"}, RepoDigests: []string{"a@sha256:1"},
	})
	got := largest(images)
	if len(got) != 50 || got[1].SizeBytes != 59 {
		t.Errorf("%d images, the second %+v", len(got), got[1])
	}
	if want := []string{"a@sha256:1", "a:1", "a:2", "a:3", "a:4"}; !slices.Equal(got[0].Names, want) || got[0].SizeBytes != 100 {
		t.Errorf("the first is %+v", got[0])
	}
}
