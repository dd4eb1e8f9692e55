package credentials

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/distribution/reference"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
)

// Records remember with which secrets an image was pulled, so that a pod on the same node cannot use an image that it could
// not have pulled itself (KEP-2535). They are upstream's files:
//
//	<dir>/pulling/sha256-<of the image's name>   a pull has begun: whatever is there since may need credentials
//	<dir>/pulled/sha256-<of the image's ID>      whose credentials have been good for which names of it
type Records struct {
	dir string

	mu      sync.Mutex
	pulling map[string]int // pulls under way by name
}

// maxSecrets bounds the secrets that one record collects by comparing alone.
const maxSecrets = 100

// NewRecords keeps records in dir, upstream's <root-dir>/image_manager.
func NewRecords(dir string) *Records {
	return &Records{dir: dir, pulling: map[string]int{}}
}

// Begin says that a pull begins. It is not to begin if that cannot be noted.
func (r *Records) Begin(image string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	intent := kubeletconfig.ImagePullIntent{TypeMeta: typeMeta("ImagePullIntent"), Image: image}
	if err := write(r.intentFile(image), &intent); err != nil {
		return fmt.Errorf("failed to record image pull intent: %w", err)
	}
	r.pulling[image]++
	return nil
}

// Fail says that a pull has failed.
func (r *Records) Fail(image string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.finish(image)
}

// finish takes back one Begin; the caller holds the lock.
func (r *Records) finish(image string) error {
	if r.pulling[image]--; r.pulling[image] > 0 {
		return nil
	}
	delete(r.pulling, image)
	if err := os.Remove(r.intentFile(image)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("forget image pull intent: %w", err)
	}
	return nil
}

// Succeed says that an image was pulled, with a credential or with none. What needed no secret may be used by every pod. The pull
// stays noted when its success cannot be.
func (r *Records) Succeed(image, id string, with *Credential) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.note(image, id, with); err != nil {
		return fmt.Errorf("record the pull of image %s: %w", image, err)
	}
	return r.finish(image)
}

func (r *Records) note(image, id string, with *Credential) error {
	name, err := repository(image)
	if err != nil {
		return err
	}
	record, err := r.read(id)
	if err != nil || record == nil {
		record = &kubeletconfig.ImagePulledRecord{ImageRef: id} // what cannot be read is replaced
	}
	if record.CredentialMapping == nil {
		record.CredentialMapping = map[string]kubeletconfig.ImagePullCredentials{}
	}
	known := record.CredentialMapping[name]
	switch {
	case known.NodePodsAccessible:
		return nil
	case with == nil || with.Source == (Source{}):
		known = kubeletconfig.ImagePullCredentials{NodePodsAccessible: true}
	default:
		secret := toSecret(with)
		same := func(s kubeletconfig.ImagePullSecret) bool {
			return s.UID == secret.UID && s.Namespace == secret.Namespace && s.Name == secret.Name
		}
		switch at := slices.IndexFunc(known.KubernetesSecrets, same); {
		case at < 0:
			known.KubernetesSecrets = append(known.KubernetesSecrets, secret)
		case known.KubernetesSecrets[at] == secret:
			return nil
		default:
			known.KubernetesSecrets[at] = secret
		}
	}
	record.TypeMeta, record.LastUpdatedTime = typeMeta("ImagePulledRecord"), metav1.NewTime(time.Now())
	record.CredentialMapping[name] = known
	return write(r.recordFile(id), record)
}

// MayUse says whether a pod with these credentials may use an image that is there without pulling it again. Images that came
// without a pull through these records may be used by every pod (NeverVerifyPreloadedImages).
func (r *Records) MayUse(image, id string, credentials func() []Credential) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, err := r.read(id)
	if err != nil {
		return false, err
	}
	if record == nil {
		_, err := os.Stat(r.intentFile(image))
		return errors.Is(err, os.ErrNotExist), nil
	}
	name, err := repository(image)
	if err != nil {
		return false, err
	}
	known := record.CredentialMapping[name]
	if known.NodePodsAccessible {
		return true, nil
	}
	if len(known.KubernetesSecrets) == 0 {
		return false, nil
	}
	for _, c := range credentials() {
		secret := toSecret(&c)
		for _, s := range known.KubernetesSecrets {
			sameSecret := s.UID == secret.UID && s.Namespace == secret.Namespace && s.Name == secret.Name && c.Source != Source{}
			if s.CredentialHash != secret.CredentialHash && !sameSecret {
				continue
			}
			if s != secret && c.Source != (Source{}) && len(known.KubernetesSecrets) < maxSecrets {
				return true, r.note(image, id, &c)
			}
			return true, nil
		}
	}
	return false, nil
}

// Prune forgets images that are no longer there, but not what was noted after since.
func (r *Records) Prune(ids map[string]struct{}, since time.Time) error {
	keep := map[string]bool{}
	for id := range ids {
		keep[filepath.Base(r.recordFile(id))] = true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	files, err := os.ReadDir(filepath.Join(r.dir, "pulled"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, f := range files {
		info, statErr := f.Info()
		if keep[f.Name()] || statErr != nil || !info.ModTime().Before(since) {
			continue
		}
		err = errors.Join(err, os.Remove(filepath.Join(r.dir, "pulled", f.Name())))
	}
	return err
}

func (r *Records) intentFile(image string) string {
	return filepath.Join(r.dir, "pulling", hashed(image))
}

func (r *Records) recordFile(id string) string {
	return filepath.Join(r.dir, "pulled", hashed(id))
}

func hashed(text string) string { return "sha256-" + digest(text) }

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// read returns the record of an image, nil when there is none.
func (r *Records) read(id string) (*kubeletconfig.ImagePulledRecord, error) {
	data, err := os.ReadFile(r.recordFile(id))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of image %s: %w", id, err)
	}
	record := &kubeletconfig.ImagePulledRecord{}
	if err := json.Unmarshal(data, record); err != nil {
		return nil, fmt.Errorf("read the record of image %s: %w", id, err)
	}
	return record, nil
}

// write replaces a file as a whole.
func write(file string, value any) error {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Errorf("encode %T: %w", value, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(file+".tmp", data, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".tmp", file)
}

func typeMeta(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: "kubelet.config.k8s.io/v1beta1", Kind: kind}
}

func toSecret(c *Credential) kubeletconfig.ImagePullSecret {
	return kubeletconfig.ImagePullSecret{
		UID: c.Source.UID, Namespace: c.Source.Namespace, Name: c.Source.Name, CredentialHash: digest(c.Username + "\x00" + c.Password),
	}
}

// repository is an image's name without tag and digest.
func repository(image string) (string, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return "", fmt.Errorf("invalid image name %q: %w", image, err)
	}
	return named.Name(), nil
}
