package configobjects

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"vigil/internal/protobufclient"
)

// Config says how a store works. Server is required.
type Config struct {
	Server *rest.Config // with the node's own certificate
	Logger *slog.Logger // nil: nothing is logged

	timing timing
}

// timing is how long things take; tests have no time.
type timing struct {
	first  time.Duration // how long a read waits for the first answer about an object
	linger time.Duration // how long an object is watched after the last pod that named it
	watch  time.Duration // how long a watch lasts, from this to its double
	retry  time.Duration // the first pause after a failure; it doubles up to longest
	most   time.Duration // the longest
}

func defaultTiming() timing {
	return timing{first: 10 * time.Second, linger: time.Minute, watch: 30 * time.Minute, retry: 200 * time.Millisecond, most: 30 * time.Second}
}

// Store has the objects that pods name. It is safe for concurrent use.
type Store struct {
	client rest.Interface
	logger *slog.Logger
	timing timing

	mu       sync.Mutex // may be held while taking a watcher's, never the other way round
	pods     map[types.UID]map[key]struct{}
	watchers map[key]*watcher
	changed  []func(pods []types.UID)
	ctx      context.Context // of Run, for the watchers it owns; nil while it does not run
	running  sync.WaitGroup
	idle     chan struct{} // holds a token when a watcher has lost its last pod
}

// New makes a store. It connects to nothing before Run.
func New(config Config) (*Store, error) {
	if config.timing == (timing{}) {
		config.timing = defaultTiming()
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	server := protobufclient.Config(config.Server)
	server.GroupVersion = &corev1.SchemeGroupVersion
	server.APIPath = "/api"
	server.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	server.QPS = -1 // pods do not wait for each other
	client, err := rest.RESTClientFor(server)
	if err != nil {
		return nil, fmt.Errorf("make a client for secrets and config maps: %w", err)
	}
	return &Store{
		client: client, logger: config.Logger, timing: config.timing, idle: make(chan struct{}, 1),
		pods: map[types.UID]map[key]struct{}{}, watchers: map[key]*watcher{},
	}, nil
}

// OnChange has f called with the pods that name an object whenever it has changed, come, or gone, and when it is known at last after a
// read gave up waiting. f must return soon. OnChange is called before Run.
func (s *Store) OnChange(f func(pods []types.UID)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.changed = append(s.changed, f)
}

// Run watches until ctx ends.
func (s *Store) Run(ctx context.Context) error {
	s.mu.Lock()
	s.ctx = ctx
	for _, w := range s.watchers {
		s.start(w)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.ctx = nil
		s.mu.Unlock()
		s.running.Wait()
	}()
	again := time.NewTimer(s.timing.linger)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.idle:
		case <-again.C:
		}
		if wait := s.sweep(time.Now()); wait > 0 {
			again.Reset(wait)
		}
	}
}

// sweep ends the watches that no pod has needed for a while, and says when the next one will be due; 0: none waits.
func (s *Store) sweep(now time.Time) (wait time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, w := range s.watchers {
		if len(w.pods) > 0 {
			continue
		}
		left := w.idle.Add(s.timing.linger).Sub(now)
		if left <= 0 {
			w.cancel()
			delete(s.watchers, k)
			continue
		}
		if wait == 0 || left < wait {
			wait = left
		}
	}
	return wait
}

// Register says that a pod is on this node: what it names is watched from now on.
func (s *Store) Register(pod *corev1.Pod) {
	want := references(pod)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(pod.UID, want)
	if len(want) == 0 {
		delete(s.pods, pod.UID)
		return
	}
	s.pods[pod.UID] = want
	for k := range want {
		w := s.watchers[k]
		if w == nil {
			w = newWatcher(s, k)
			s.watchers[k] = w
			if s.ctx != nil {
				s.start(w)
			}
		}
		w.pods[pod.UID] = struct{}{}
	}
}

// Unregister says that a pod is no longer on this node.
func (s *Store) Unregister(uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.release(uid, nil)
	delete(s.pods, uid)
}

// release takes a pod off the objects that it named and does not want any more. s.mu is held.
func (s *Store) release(uid types.UID, want map[key]struct{}) {
	for k := range s.pods[uid] {
		if _, still := want[k]; still {
			continue
		}
		w := s.watchers[k]
		delete(w.pods, uid)
		if len(w.pods) == 0 {
			w.idle = time.Now()
			select {
			case s.idle <- struct{}{}:
			default:
			}
		}
	}
}

// start starts a watcher. s.mu is held.
func (s *Store) start(w *watcher) {
	ctx, cancel := context.WithCancel(s.ctx)
	w.cancel = cancel
	s.running.Go(func() {
		defer cancel()
		w.run(ctx)
	})
}

// tell calls those who asked with the pods that name the object of w.
func (s *Store) tell(w *watcher) {
	s.mu.Lock()
	pods := make([]types.UID, 0, len(w.pods))
	for uid := range w.pods {
		pods = append(pods, uid)
	}
	told := s.changed
	s.mu.Unlock()
	if len(pods) == 0 {
		return
	}
	for _, f := range told {
		f(pods)
	}
}

// Secret returns the secret as the API server last had it. See the package's doc for its errors.
func (s *Store) Secret(ctx context.Context, namespace, name string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	if err := s.get(ctx, key{secrets, namespace, name}, secret); err != nil {
		return nil, err
	}
	return secret, nil
}

// ConfigMap returns the config map as the API server last had it. See the package's doc for its errors.
func (s *Store) ConfigMap(ctx context.Context, namespace, name string) (*corev1.ConfigMap, error) {
	configMap := &corev1.ConfigMap{}
	if err := s.get(ctx, key{configMaps, namespace, name}, configMap); err != nil {
		return nil, err
	}
	return configMap, nil
}

// message is a Go type of k8s.io/api.
type message interface {
	Unmarshal([]byte) error
	Marshal() ([]byte, error)
}

func (s *Store) get(ctx context.Context, k key, into message) error {
	s.mu.Lock()
	w := s.watchers[k]
	s.mu.Unlock()
	if w == nil {
		return fmt.Errorf("object %q/%q not registered", k.namespace, k.name)
	}
	encoded, err := w.wait(ctx, s.timing.first)
	if err != nil {
		return err
	}
	if err := into.Unmarshal(encoded); err != nil {
		return fmt.Errorf("decode %s %s/%s: %w", k.kind.singular(), k.namespace, k.name, err)
	}
	return nil
}
