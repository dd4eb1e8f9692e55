package kubelet

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet/untrusted"
)

// userNamespaceLength is how many IDs a pod with users of its own has (userns/userns_manager.go).
const userNamespaceLength = 1 << 16

// userNamespaces gives ranges of the node's user IDs to pods that want users of their own (hostUsers: false, KEP-127). The first
// range is the node's. What a pod has is kept in its directory.
type userNamespaces struct {
	rootDir string // the kubelet's

	mu    sync.Mutex
	taken map[uint32]types.UID // by number of the range; nil until files have been read
}

// userNamespaceFile is in a pod's directory: {"first": 65536, "length": 65536}.
const userNamespaceFile = "userns"

// of returns the range of a pod, and gives it one if it has none; nil for a pod with the node's users.
func (u *userNamespaces) of(pod *corev1.Pod) (*IDRange, error) {
	if pod.Spec.HostUsers == nil || *pod.Spec.HostUsers || u.rootDir == "" {
		return nil, nil
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if err := u.readLocked(); err != nil {
		return nil, fmt.Errorf("read user namespaces: %w", err)
	}
	for number, uid := range u.taken {
		if uid == pod.UID {
			return &IDRange{First: number * userNamespaceLength, Length: userNamespaceLength}, nil
		}
	}
	for number := uint32(1); number < 1<<16-1; number++ {
		if _, taken := u.taken[number]; taken {
			continue
		}
		has := &IDRange{First: number * userNamespaceLength, Length: userNamespaceLength}
		data, err := json.Marshal(has)
		if err != nil {
			return nil, fmt.Errorf("encode user namespace: %w", err)
		}
		if err := os.WriteFile(filepath.Join(u.rootDir, "pods", string(pod.UID), userNamespaceFile), data, 0o600); err != nil {
			return nil, fmt.Errorf("keep user namespace: %w", err)
		}
		u.taken[number] = pod.UID
		return has, nil
	}
	return nil, errors.New("could not find an empty slot to allocate a user namespace")
}

func (u *userNamespaces) readLocked() error {
	if u.taken != nil {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(u.rootDir, "pods", "*", userNamespaceFile))
	if err != nil {
		return err
	}
	taken := map[uint32]types.UID{}
	for _, file := range files {
		var has IDRange
		data, err := untrusted.Read(file, 4<<10)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(data, &has)
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		taken[has.First/userNamespaceLength] = types.UID(filepath.Base(filepath.Dir(file)))
	}
	u.taken = taken
	return nil
}

// release gives the range of a pod back, whose directory is gone.
func (u *userNamespaces) release(uid types.UID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for number, has := range u.taken {
		if has == uid {
			delete(u.taken, number)
		}
	}
}
