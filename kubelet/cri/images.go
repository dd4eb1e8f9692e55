package cri

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"

	"github.com/distribution/reference"
	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet"
	"vigil/kubelet/cri/credentials"
)

// Reasons of kubelet.ImageError, upstream's (pkg/kubelet/images/types.go).
const (
	reasonPull        = "ErrImagePull"
	reasonNeverPull   = "ErrImageNeverPull"
	reasonInvalidName = "InvalidImageName"
	reasonInspect     = "ImageInspectError"
	reasonRegistry    = "RegistryUnavailable"
	reasonSignature   = "SignatureValidationFailed"
)

// imageService brings images to the node and knows those that are there.
type imageService struct {
	client  runtimeapi.ImageServiceClient
	logger  *slog.Logger
	metrics *metrics
	turns   chan struct{}        // holds a token for each pull under way; nil: no limit
	plugins *credentials.Plugins // nil: none
	records *credentials.Records
	content *contents

	mu    sync.Mutex
	users map[string]imageUser // by image ID, which names a content that never changes
}

// imageUser is whom an image runs as: a number, or a name that only the image's files explain.
type imageUser struct {
	uid  *int64
	name string
}

func newImageService(config Config, conn *grpc.ClientConn, metrics *metrics) *imageService {
	s := &imageService{
		client: runtimeapi.NewImageServiceClient(conn), content: newContents(conn), logger: config.Logger, metrics: metrics, plugins: config.CredentialPlugins, users: map[string]imageUser{},
		records: credentials.NewRecords(filepath.Join(config.RootDir, "image_manager")),
	}
	switch {
	case config.SerializeImagePulls:
		s.turns = make(chan struct{}, 1)
	case config.MaxParallelImagePulls > 0:
		s.turns = make(chan struct{}, config.MaxParallelImagePulls)
	}
	return s
}

// EnsureImage implements kubelet.Runtime. Image.ID is the ID of the image's content, so that a container gets what was checked here
// even when the name is given to another image.
func (r *Runtime) EnsureImage(ctx context.Context, request kubelet.ImageRequest) (kubelet.Image, error) {
	return r.images.ensure(ctx, request)
}

func (s *imageService) ensure(ctx context.Context, request kubelet.ImageRequest) (kubelet.Image, error) {
	asked := request.Container.Image
	name, err := withDefaultTag(asked)
	if err != nil {
		return kubelet.Image{}, &kubelet.ImageError{Reason: reasonInvalidName, Message: fmt.Sprintf("Failed to apply default image tag %q: %v", asked, err)}
	}
	p := &pull{
		service: s, request: request, name: name,
		spec: &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: asked, Annotations: request.Pod.Annotations, RuntimeHandler: request.Handler},
	}
	rule := policy(request.Container, name)
	image, err := s.inspect(ctx, p.spec)
	if err != nil {
		return kubelet.Image{}, &kubelet.ImageError{Reason: reasonInspect, Message: fmt.Sprintf("Failed to inspect image %q: %v", asked, err)}
	}
	// A pinned image has come with the runtime and no registry has it: `image: demo`, whose policy is Always, means the one that is there.
	if image != nil && image.Pinned {
		return kubelet.Image{ID: image.Id, Size: int64(image.Size)}, nil
	}
	if rule == corev1.PullAlways {
		return p.run(ctx)
	}
	if image != nil {
		may, err := s.records.MayUse(name, image.Id, func() []credentials.Credential { return p.credentials(ctx) })
		if err != nil {
			s.logger.Warn("the kubelet cannot read who may use an image; it pulls the image again", "image", name, "error", err)
		}
		if may {
			return kubelet.Image{ID: image.Id, Size: int64(image.Size)}, nil
		}
	}
	if rule == corev1.PullNever {
		return kubelet.Image{}, &kubelet.ImageError{Reason: reasonNeverPull, Message: fmt.Sprintf("Container image %q is not present with pull policy of Never", asked)}
	}
	return p.run(ctx)
}

// policy is the container's pull policy; the API server has filled it in for pods that have been there.
func policy(c *corev1.Container, name string) corev1.PullPolicy {
	switch {
	case c.ImagePullPolicy != "":
		return c.ImagePullPolicy
	case strings.HasSuffix(name, ":latest"):
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// inspect returns an image that is on the node, nil when it is not.
func (s *imageService) inspect(ctx context.Context, spec *runtimeapi.ImageSpec) (*runtimeapi.Image, error) {
	answer, err := s.client.ImageStatus(ctx, &runtimeapi.ImageStatusRequest{Image: spec})
	if err != nil {
		return nil, err
	}
	if answer.Image != nil && answer.Image.Id == "" {
		return nil, fmt.Errorf("the runtime says nothing of image %s", spec.Image)
	}
	return answer.Image, nil
}

// withDefaultTag adds ":latest" to a name without tag and digest, and nothing else: what a short name means is the runtime's business.
func withDefaultTag(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("couldn't parse image name %q: %w", image, err)
	}
	if reference.IsNameOnly(named) {
		return image + ":latest", nil
	}
	return image, nil
}

// user is whom an image on the node runs as.
func (s *imageService) user(ctx context.Context, id string) (imageUser, error) {
	s.mu.Lock()
	user, found := s.users[id]
	s.mu.Unlock()
	if found {
		return user, nil
	}
	image, err := s.inspect(ctx, &runtimeapi.ImageSpec{Image: id})
	switch {
	case err != nil:
		return imageUser{}, err
	case image == nil:
		return imageUser{}, fmt.Errorf("unable to get image status for %q", id)
	case image.Uid != nil:
		user.uid = &image.Uid.Value
	case image.Username != "":
		user.name = image.Username
	default:
		user.uid = new(int64) // root
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.users[id] = user
	return user, nil
}
