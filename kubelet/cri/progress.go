package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	content "github.com/containerd/containerd/api/services/content/v1"
	"github.com/distribution/reference"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// When it is told how far a pull is: first after firstProgress, then after pauses that double up to longestProgress, so that a pull of
// ten minutes is told of a dozen times.
const (
	firstProgress   = 5 * time.Second
	longestProgress = time.Minute
)

// largestManifest bounds what is read of a manifest, in bytes; registries refuse larger ones.
const largestManifest = 4 << 20

// Labels that containerd puts on what it has pulled: of a manifest the digests of its parts, of all the repositories it came from, by
// registry without port (core/images/handlers.go, core/remotes/docker/handler.go).
const (
	partLabel   = "containerd.io/gc.ref.content."
	sourceLabel = "containerd.io/distribution.source."
)

// contents tells how far a pull is. The Container Runtime Interface does not, but containerd's content store, at the same socket,
// knows of each blob that is on its way how much of it is there. Blobs are told from those of other pulls by the manifest that they
// are parts of: it is among the first that a pull brings, and its labels name its repository. Two pulls of different images of one
// repository at once are taken for the one whose manifest came last.
type contents struct {
	client content.ContentClient
	first  time.Duration // until it is first told
}

func newContents(conn grpc.ClientConnInterface) *contents {
	return &contents{client: content.NewContentClient(conn), first: firstProgress}
}

// follow calls tell now and then with how many bytes of an image's content are there, and how many there will be, until ctx ends. What
// cannot be found out is not told.
func (c *contents) follow(ctx context.Context, image string, tell func(done, total int64)) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return
	}
	ctx = metadata.AppendToOutgoingContext(ctx, "containerd-namespace", "k8s.io")
	for pause := c.first; ; pause = min(2*pause, longestProgress) {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		done, total, err := c.progress(ctx, named)
		switch {
		case status.Code(err) == codes.Unimplemented:
			return // the runtime is not containerd
		case err == nil && total > 0 && ctx.Err() == nil:
			tell(done, total)
		}
	}
}

// progress says how much of an image is there; total is 0 when nothing of it is under way.
func (c *contents) progress(ctx context.Context, image reference.Named) (done, total int64, err error) {
	active, err := c.client.ListStatuses(ctx, &content.ListStatusesRequest{})
	if err != nil || len(active.Statuses) == 0 {
		return 0, 0, err
	}
	manifest, err := c.manifest(ctx, image, active.Statuses)
	if err != nil || manifest == "" {
		return 0, 0, err
	}
	parts, err := c.parts(ctx, manifest)
	if err != nil {
		return 0, 0, err
	}
	for _, part := range parts {
		total += part.Size
		if ingest := ingestOf(active.Statuses, part.Digest); ingest != nil {
			done += min(ingest.Offset, part.Size)
		} else if _, err := c.client.Info(ctx, &content.InfoRequest{Digest: part.Digest}); err == nil {
			done += part.Size
		}
	}
	return done, total, nil
}

// ingestOf finds the blob of a digest among those on their way: their references are the kind and the digest, "layer-sha256:...".
func ingestOf(active []*content.Status, digest string) *content.Status {
	at := slices.IndexFunc(active, func(s *content.Status) bool { return strings.HasSuffix(s.Ref, digest) })
	if at < 0 {
		return nil
	}
	return active[at]
}

// manifest finds the newest manifest of an image's repository of whose parts one is on its way; "" when there is none.
func (c *contents) manifest(ctx context.Context, image reference.Named, active []*content.Status) (digest string, err error) {
	registry, err := url.Parse("registry://" + reference.Domain(image))
	if err != nil {
		return "", fmt.Errorf("registry of image %s: %w", image, err)
	}
	source := sourceLabel + registry.Hostname()
	stream, err := c.client.List(ctx, &content.ListContentRequest{Filters: []string{fmt.Sprintf("labels.%q", source)}})
	if err != nil {
		return "", err
	}
	var newest time.Time
	for {
		some, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return digest, nil
		}
		if err != nil {
			return "", err
		}
		for _, info := range some.Info {
			if info.Size > largestManifest || !slices.Contains(strings.Split(info.Labels[source], ","), reference.Path(image)) || !comes(info.Labels, active) {
				continue
			}
			if created := info.CreatedAt.AsTime(); digest == "" || created.After(newest) {
				digest, newest = info.Digest, created
			}
		}
	}
}

// comes says whether a part of the manifest with these labels, its configuration or a layer, is on its way.
func comes(labels map[string]string, active []*content.Status) bool {
	for label, digest := range labels {
		if kind, ok := strings.CutPrefix(label, partLabel); ok && !strings.HasPrefix(kind, "m") && ingestOf(active, digest) != nil {
			return true
		}
	}
	return false
}

// part is a blob that an image is made of.
type part struct {
	Digest string
	Size   int64 // bytes
}

// parts reads a manifest.
func (c *contents) parts(ctx context.Context, digest string) ([]part, error) {
	stream, err := c.client.Read(ctx, &content.ReadContentRequest{Digest: digest})
	if err != nil {
		return nil, err
	}
	var data []byte
	for {
		some, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		data = append(data, some.Data...)
	}
	var manifest struct {
		Config part
		Layers []part
	}
	if err := json.Unmarshal(data, &manifest); err != nil {
		return nil, fmt.Errorf("manifest %s: %w", digest, err)
	}
	return append(manifest.Layers, manifest.Config), nil
}
