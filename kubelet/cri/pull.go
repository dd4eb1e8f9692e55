package cri

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/distribution/reference"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	crierrors "k8s.io/cri-api/pkg/errors"

	"vigil/internal/panics"
	"vigil/kubelet"
	"vigil/kubelet/cri/credentials"
)

// pull is one image on its way. The interface tells nothing between the beginning and the end of it; progress.go asks elsewhere.
type pull struct {
	service *imageService
	request kubelet.ImageRequest
	name    string // with a tag or digest
	spec    *runtimeapi.ImageSpec

	keyring *credentials.Keyring // nil until someone asks
}

func (p *pull) run(ctx context.Context) (kubelet.Image, error) {
	s := p.service
	if p.request.Began != nil {
		p.request.Began()
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
	waited := time.Since(asked)
	ended := p.follow(ctx)
	image, err := p.pull(ctx)
	ended()
	if err != nil {
		return kubelet.Image{}, pullError(p.request.Container.Image, err)
	}
	took := time.Since(asked)
	s.metrics.pulled(int64(image.Size), took)
	return kubelet.Image{ID: image.Id, Pulled: true, Size: int64(image.Size), Waited: waited, Took: took}, nil
}

// follow tells whoever wants to know how far the pull is, until ended is called.
func (p *pull) follow(ctx context.Context) (ended func()) {
	if p.request.Progress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer panics.Catch(p.service.logger, panics.Node, "image", p.name)
		p.service.content.follow(ctx, p.name, p.request.Progress)
	}()
	return func() {
		cancel()
		<-done
	}
}

// pull pulls with each credential in turn, and remembers with which it succeeded.
func (p *pull) pull(ctx context.Context) (*runtimeapi.Image, error) {
	s := p.service
	if err := s.records.Begin(p.name); err != nil {
		return nil, err
	}
	image, with, err := p.try(ctx)
	if err != nil {
		if forgetting := s.records.Fail(p.name); forgetting != nil {
			s.logger.Warn("the kubelet cannot remove the record of a pull that failed; it stays until the image is pulled", "image", p.name, "error", forgetting)
		}
		return nil, err
	}
	if err := s.records.Succeed(p.name, image.Id, with); err != nil {
		s.logger.Warn("the kubelet cannot record who may use an image; others with the same credentials pull it again", "image", p.name, "error", err)
	}
	return image, nil
}

func (p *pull) try(ctx context.Context) (image *runtimeapi.Image, with *credentials.Credential, err error) {
	all, err := p.lookup(ctx)
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		image, err = p.ask(ctx, nil)
		return image, nil, err
	}
	var failed []error
	for _, c := range all {
		if image, err = p.ask(ctx, &runtimeapi.AuthConfig{Username: c.Username, Password: c.Password}); err == nil {
			return image, &c, nil
		}
		failed = append(failed, err)
		if ctx.Err() != nil {
			break
		}
	}
	if len(failed) == 1 {
		return nil, nil, failed[0]
	}
	return nil, nil, errors.Join(failed...)
}

func (p *pull) ask(ctx context.Context, auth *runtimeapi.AuthConfig) (*runtimeapi.Image, error) {
	answer, err := p.service.client.PullImage(ctx, &runtimeapi.PullImageRequest{Image: p.spec, Auth: auth})
	if err != nil {
		return nil, err
	}
	if answer.ImageRef == "" {
		return nil, fmt.Errorf("imageRef of image %q is not set", p.name)
	}
	image, err := p.service.inspect(ctx, &runtimeapi.ImageSpec{Image: answer.ImageRef, RuntimeHandler: p.spec.RuntimeHandler})
	if err == nil && image == nil {
		err = fmt.Errorf("image %s has been pulled and is not there", answer.ImageRef)
	}
	return image, err
}

// lookup finds who may pull the image: the pod's secrets, and what plug-ins know. A plug-in that fails takes nothing from the others.
func (p *pull) lookup(ctx context.Context) ([]credentials.Credential, error) {
	named, err := reference.ParseNormalizedNamed(p.name)
	if err != nil {
		return nil, err // it has been parsed before
	}
	if p.keyring == nil {
		keyring := &credentials.Keyring{}
		for _, secret := range p.request.Secrets {
			if err := keyring.AddSecret(secret); err != nil {
				return nil, err
			}
		}
		if err := p.service.plugins.AddTo(ctx, keyring, named.Name()); err != nil {
			p.service.logger.Warn("a credential provider failed; the kubelet pulls with the credentials that it has besides", "image", p.name, "error", err)
		}
		p.keyring = keyring
	}
	return p.keyring.Lookup(named.Name()), nil
}

// credentials is lookup for who treats an unreadable secret as none.
func (p *pull) credentials(ctx context.Context) []credentials.Credential {
	all, err := p.lookup(ctx)
	if err != nil {
		p.service.logger.Warn("the kubelet cannot read an image pull secret; it counts as none", "image", p.name, "error", err)
	}
	return all
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
