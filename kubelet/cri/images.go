package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/distribution/reference"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"vigil/kubelet"
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
	client runtimeapi.ImageServiceClient
	turns  chan struct{} // holds a token for each pull under way; nil: no limit

	mu    sync.Mutex
	users map[string]imageUser // by image ID, which names a content that never changes
}

// imageUser is whom an image runs as: a number, or a name that only the image's files explain.
type imageUser struct {
	uid  *int64
	name string
}

func newImageService(config Config, client runtimeapi.ImageServiceClient) *imageService {
	s := &imageService{client: client, users: map[string]imageUser{}}
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
	spec := &runtimeapi.ImageSpec{Image: name, UserSpecifiedImage: asked, Annotations: request.Pod.Annotations, RuntimeHandler: request.Handler}
	image, err := s.inspect(ctx, spec)
	if err != nil {
		return kubelet.Image{}, &kubelet.ImageError{Reason: reasonInspect, Message: fmt.Sprintf("Failed to inspect image %q: %v", asked, err)}
	}
	switch policy(request.Container, name) {
	case corev1.PullNever:
		if image == nil {
			return kubelet.Image{}, &kubelet.ImageError{Reason: reasonNeverPull, Message: fmt.Sprintf("Container image %q is not present with pull policy of Never", asked)}
		}
	case corev1.PullIfNotPresent:
		if image == nil {
			return s.pull(ctx, request, spec)
		}
	default:
		// A pinned image has come with the runtime, no registry has it: `image: demo` works, although its policy is Always.
		if image == nil || !image.Pinned {
			return s.pull(ctx, request, spec)
		}
	}
	return kubelet.Image{ID: image.Id, Size: int64(image.Size)}, nil
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

func (s *imageService) pull(ctx context.Context, request kubelet.ImageRequest, spec *runtimeapi.ImageSpec) (kubelet.Image, error) {
	if request.Began != nil {
		request.Began()
	}
	asked := time.Now()
	if s.turns != nil {
		select {
		case s.turns <- struct{}{}:
			defer func() { <-s.turns }()
		case <-ctx.Done():
			return kubelet.Image{}, ctx.Err()
		}
	}
	began := time.Now()
	ref, err := s.pullWith(ctx, spec, nil)
	if err != nil {
		return kubelet.Image{}, pullError(request.Container.Image, err)
	}
	took := time.Since(began)
	image, err := s.inspect(ctx, &runtimeapi.ImageSpec{Image: ref, RuntimeHandler: spec.RuntimeHandler})
	if err == nil && image == nil {
		err = errors.New("it is not there after it has been pulled")
	}
	if err != nil {
		return kubelet.Image{}, &kubelet.ImageError{Reason: reasonInspect, Message: fmt.Sprintf("Failed to inspect image %q: %v", request.Container.Image, err)}
	}
	return kubelet.Image{ID: image.Id, Pulled: true, Size: int64(image.Size), Waited: began.Sub(asked), Took: took}, nil
}

func (s *imageService) pullWith(ctx context.Context, spec *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig) (ref string, err error) {
	answer, err := s.client.PullImage(ctx, &runtimeapi.PullImageRequest{Image: spec, Auth: auth})
	if err != nil {
		return "", err
	}
	if answer.ImageRef == "" {
		return "", fmt.Errorf("imageRef of image %q is not set", spec.Image)
	}
	return answer.ImageRef, nil
}

// pullError says in upstream's words why a pull failed; runtimes tell two causes by how their message begins.
func pullError(image string, err error) *kubelet.ImageError {
	message := status.Convert(err).Message()
	for _, known := range []struct {
		cause          error
		reason, phrase string
	}{
		{crierrors.ErrRegistryUnavailable, reasonRegistry, "the registry is unavailable"},
		{crierrors.ErrSignatureValidationFailed, reasonSignature, "the signature validation failed"},
	} {
		if detail, found := strings.CutPrefix(message, known.cause.Error()); found {
			return &kubelet.ImageError{Reason: known.reason, Message: fmt.Sprintf("image pull failed for %s because %s%s", image, known.phrase, detail)}
		}
	}
	return &kubelet.ImageError{Reason: reasonPull, Message: err.Error()}
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
