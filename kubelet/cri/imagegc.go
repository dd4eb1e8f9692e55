package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/panics"
)

// gcInterval is how often images are looked at, and disk space.
const gcInterval = 5 * time.Minute

// ImageGCConfig says when images go. Zero works; the defaults are upstream's.
type ImageGCConfig struct {
	HighThreshold int           // --image-gc-high-threshold: percent of the file system in use at which images are removed; default 85, 100: never
	LowThreshold  int           // --image-gc-low-threshold: percent at which that stops; default 80
	MinAge        time.Duration // --minimum-image-ttl-duration: images younger than that stay; default 2m
	MaxAge        time.Duration // --image-maximum-gc-age: images unused for longer go, however much space there is; 0: never

	Node     *corev1.ObjectReference // what events are about
	Recorder record.EventRecorder    // nil: no events
	Logger   *slog.Logger

	usage func(path string) (capacity, available int64, err error) // in bytes; nil: the file system's
	now   func() time.Time
}

// ImageGC removes images that nobody uses, those unused for the longest time first. Images that a container has, ended ones
// included, and pinned images stay.
type ImageGC struct {
	config  ImageGCConfig
	runtime *Runtime
	started time.Time

	collecting sync.Mutex // one collection at a time

	mu       sync.Mutex
	images   map[string]*knownImage // by ID
	listed   []corev1.ContainerImage
	listedAt time.Time
}

type knownImage struct {
	detected, used time.Time // used is zero when no use has been seen
	size           int64
	pinned         bool
}

// NewImageGC makes the garbage collection of a runtime's images; it removes nothing before Run or Free is called.
func (r *Runtime) NewImageGC(config ImageGCConfig) (*ImageGC, error) {
	config.HighThreshold = cmp.Or(config.HighThreshold, 85)
	config.LowThreshold = cmp.Or(config.LowThreshold, 80)
	config.MinAge = cmp.Or(config.MinAge, 2*time.Minute)
	if config.Logger == nil {
		config.Logger = r.logger
	}
	if config.usage == nil {
		config.usage = diskUsage
	}
	if config.now == nil {
		config.now = time.Now
	}
	switch {
	case config.HighThreshold < 0 || config.HighThreshold > 100:
		return nil, fmt.Errorf("invalid HighThresholdPercent %d, must be in range [0-100]", config.HighThreshold)
	case config.LowThreshold < 0 || config.LowThreshold > 100:
		return nil, fmt.Errorf("invalid LowThresholdPercent %d, must be in range [0-100]", config.LowThreshold)
	case config.LowThreshold > config.HighThreshold:
		return nil, fmt.Errorf("LowThresholdPercent %d can not be higher than HighThresholdPercent %d", config.LowThreshold, config.HighThreshold)
	}
	return &ImageGC{config: config, runtime: r, started: config.now(), images: map[string]*knownImage{}}, nil
}

// Run looks at images and disk space every five minutes until ctx ends. A failure is an event when it is the second in a row, as
// the first may be for want of statistics.
func (g *ImageGC) Run(ctx context.Context) error {
	tick := time.NewTicker(gcInterval)
	defer tick.Stop()
	failed := false
	for {
		err := panics.Try(g.config.Logger, panics.Node, func() error { return g.Collect(ctx) })
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			failed = false
		case failed:
			g.warn("ImageGCFailed", err.Error())
			fallthrough
		default:
			failed = true
			g.config.Logger.Warn("the kubelet could not collect images that nobody uses; it tries again", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func (g *ImageGC) warn(reason, message string) {
	if g.config.Recorder != nil && g.config.Node != nil {
		g.config.Recorder.Event(g.config.Node, corev1.EventTypeWarning, reason, message)
	}
}

// Collect removes images that are too old, and others when the file system is too full.
func (g *ImageGC) Collect(ctx context.Context) error {
	g.collecting.Lock()
	defer g.collecting.Unlock()
	began := g.config.now()
	candidates, err := g.detect(ctx, began)
	if err != nil {
		return err
	}
	if candidates, err = g.removeOld(ctx, candidates, began); err != nil {
		return err
	}
	path, err := g.filesystem(ctx)
	if err != nil {
		return err
	}
	capacity, available, err := g.config.usage(path)
	if err != nil {
		return fmt.Errorf("ask for the disk usage of %s: %w", path, err)
	}
	available = min(available, capacity)
	if capacity == 0 {
		err := errors.New("invalid capacity 0 on image filesystem")
		g.warn("InvalidDiskCapacity", err.Error())
		return err
	}
	if 100-int(available*100/capacity) < g.config.HighThreshold {
		return nil
	}
	wanted := capacity*int64(100-g.config.LowThreshold)/100 - available
	freed, err := g.free(ctx, candidates, wanted, began)
	if err == nil && freed < wanted {
		err = fmt.Errorf("Failed to garbage collect required amount of images. Attempted to free %d bytes, but only found %d bytes eligible to free.", wanted, freed)
		g.warn("FreeDiskSpaceFailed", err.Error())
	}
	return err
}

// Free removes all images that nobody uses, for a node that runs out of disk space.
func (g *ImageGC) Free(ctx context.Context) error {
	g.collecting.Lock()
	defer g.collecting.Unlock()
	now := g.config.now()
	candidates, err := g.detect(ctx, now)
	if err != nil {
		return err
	}
	_, err = g.free(ctx, candidates, 1<<62, now)
	return err
}

// candidate is an image that may go.
type candidate struct {
	id string
	knownImage
}

// detect brings what is known of images up to date and returns those that may go, unused for the longest time first.
func (g *ImageGC) detect(ctx context.Context, now time.Time) ([]candidate, error) {
	used, err := g.runtime.usedImages(ctx)
	if err != nil {
		return nil, err
	}
	answer, err := g.runtime.images.client.ListImages(ctx, &runtimeapi.ListImagesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	there := make(map[string]struct{}, len(answer.Images))
	var candidates []candidate
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, image := range answer.Images {
		there[image.Id] = struct{}{}
		known := g.images[image.Id]
		if known == nil {
			known = &knownImage{detected: now}
			g.images[image.Id] = known
		}
		known.size, known.pinned = int64(image.Size), image.Pinned
		if _, isUsed := used[image.Id]; isUsed {
			known.used = now
			continue
		}
		if !image.Pinned {
			candidates = append(candidates, candidate{image.Id, *known})
		}
	}
	for id := range g.images {
		if _, found := there[id]; !found {
			delete(g.images, id)
		}
	}
	if err := g.runtime.images.forget(there, now); err != nil {
		g.config.Logger.Warn("the kubelet cannot remove the records of images that are gone; it tries again", "error", err)
	}
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(a.used.Compare(b.used), a.detected.Compare(b.detected), cmp.Compare(a.id, b.id))
	})
	return candidates, nil
}

// removeOld removes what has not been used for MaxAge, and returns what is left. Nothing is old before the process is.
func (g *ImageGC) removeOld(ctx context.Context, candidates []candidate, now time.Time) (left []candidate, err error) {
	if g.config.MaxAge == 0 || now.Sub(g.started) <= g.config.MaxAge {
		return candidates, nil
	}
	for _, c := range candidates {
		last := c.used
		if last.IsZero() {
			last = c.detected
		}
		if now.Sub(last) <= g.config.MaxAge {
			left = append(left, c)
			continue
		}
		err = errors.Join(err, g.remove(ctx, c, "age"))
	}
	return left, err
}

// free removes candidates until so many bytes are free, and returns how many were. Images that were used just now or are too young stay.
func (g *ImageGC) free(ctx context.Context, candidates []candidate, wanted int64, now time.Time) (freed int64, err error) {
	for _, c := range candidates {
		if freed >= wanted {
			break
		}
		if !c.used.Before(now) || now.Sub(c.detected) < g.config.MinAge {
			continue
		}
		if failed := g.remove(ctx, c, "space"); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		freed += c.size
	}
	return freed, err
}

// remove removes an image for want of space or because of its age.
func (g *ImageGC) remove(ctx context.Context, c candidate, reason string) error {
	if _, err := g.runtime.images.client.RemoveImage(ctx, &runtimeapi.RemoveImageRequest{Image: &runtimeapi.ImageSpec{Image: c.id}}); err != nil {
		return fmt.Errorf("remove image %s: %w", c.id, err)
	}
	g.runtime.images.metrics.collected.WithLabelValues(reason).Inc()
	g.config.Logger.Info("the kubelet removed an image that nobody uses", "image", c.id, "bytes", c.size)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.images, c.id)
	return nil
}

// Bounds of what a Node's status says of images: --node-status-max-images, and names of each.
const (
	describedImages = 50
	describedNames  = 5
)

// listAge is how old the list of images in a Node's status may be.
const listAge = 30 * time.Second

// Describe puts the node's largest images into its status.
func (g *ImageGC) Describe(ctx context.Context, status *corev1.NodeStatus) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listed == nil || g.config.now().Sub(g.listedAt) >= listAge {
		answer, err := g.runtime.images.client.ListImages(ctx, &runtimeapi.ListImagesRequest{})
		if err != nil {
			return fmt.Errorf("list images: %w", err)
		}
		g.listed, g.listedAt = largest(answer.Images), g.config.now()
	}
	status.Images = g.listed
	return nil
}

// largest returns the largest images with some of their names, digests first.
func largest(images []*runtimeapi.Image) []corev1.ContainerImage {
	described := make([]corev1.ContainerImage, 0, len(images))
	for _, image := range images {
		names := slices.Concat(slices.Sorted(slices.Values(image.RepoDigests)), slices.Sorted(slices.Values(image.RepoTags)))
		if len(names) > 0 {
			described = append(described, corev1.ContainerImage{Names: names[:min(len(names), describedNames)], SizeBytes: int64(image.Size)})
		}
	}
	slices.SortFunc(described, func(a, b corev1.ContainerImage) int {
		return cmp.Or(cmp.Compare(b.SizeBytes, a.SizeBytes), slices.Compare(a.Names, b.Names))
	})
	return described[:min(len(described), describedImages)]
}

// filesystem is where images are.
func (g *ImageGC) filesystem(ctx context.Context) (path string, err error) {
	answer, err := g.runtime.images.client.ImageFsInfo(ctx, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		return "", fmt.Errorf("ask for the image file system: %w", err)
	}
	if len(answer.ImageFilesystems) == 0 {
		return "", errors.New("the runtime does not say where images are")
	}
	return answer.ImageFilesystems[0].GetFsId().GetMountpoint(), nil
}

// usedImages are the IDs of all images that a container has, as its root or as a volume.
func (r *Runtime) usedImages(ctx context.Context) (map[string]struct{}, error) {
	if _, err := r.relist(ctx); err != nil {
		return nil, err
	}
	used := map[string]struct{}{}
	r.cache.mu.Lock()
	defer r.cache.mu.Unlock()
	for _, e := range r.cache.pods {
		for _, c := range e.containers {
			for _, id := range c.images {
				used[id] = struct{}{}
			}
		}
	}
	return used, nil
}

// forget drops what is remembered of images that are no longer there.
func (s *imageService) forget(there map[string]struct{}, since time.Time) error {
	s.mu.Lock()
	for id := range s.users {
		if _, found := there[id]; !found {
			delete(s.users, id)
		}
	}
	s.mu.Unlock()
	return s.records.Prune(there, since)
}
