package csi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/fsnotify/fsnotify"
	"k8s.io/apimachinery/pkg/util/version"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"vigil/internal/panics"
)

const (
	lookPeriod          = 10 * time.Second // how often sockets are looked for when nobody tells of a change
	registrationTimeout = 10 * time.Second // of one call of a registration socket
	firstPause          = 500 * time.Millisecond
	longestPause        = 2 * time.Minute
)

// Bounds of the search for sockets. Drivers may write to the directory, as pods do that mount it.
const (
	findLimit = 10_000 // files and directories
	findDepth = 8      // directories in the directory, each in the last
)

// registry knows the drivers that have registered with this node. They do so by a socket below dir, which is there as long as they are.
type registry struct {
	dir    string
	node   *nodeObject
	logger *slog.Logger

	mu      sync.Mutex
	sockets map[string]*socket
	drivers map[string]registered
	wake    chan struct{}
}

// socket is a registration socket that was seen. One that was made anew is another: the driver has been restarted.
type socket struct {
	inode   uint64
	made    syscall.Timespec
	driver  string // "": it is not registered
	foreign bool   // it is not a CSI driver's
	busy    bool   // somebody talks to it
	retry   time.Time
	pause   time.Duration
}

// registered is a driver that can be called.
type registered struct{ endpoint, socket string }

func newRegistry(dir string, node *nodeObject, logger *slog.Logger) *registry {
	return &registry{dir: dir, node: node, logger: logger, sockets: map[string]*socket{}, drivers: map[string]registered{}, wake: make(chan struct{}, 1)}
}

// endpoint is the socket at which a driver serves.
func (r *registry) endpoint(driver string) (string, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	d, ok := r.drivers[driver]
	return d.endpoint, ok
}

// run registers drivers as they come and lets go of them as they leave, until ctx ends.
func (r *registry) run(ctx context.Context) error {
	if err := os.MkdirAll(r.dir, 0o750); err != nil {
		return err
	}
	watcher, err := fsnotify.NewWatcher()
	var events <-chan fsnotify.Event
	if err == nil {
		defer watcher.Close()
		events = watcher.Events
	} else {
		r.logger.Warn("the kubelet cannot watch the directory of CSI drivers; it looks there from time to time", "directory", r.dir, "error", err)
	}
	var talks sync.WaitGroup
	defer talks.Wait()
	talks.Go(func() { r.persist(ctx, "the kubelet cannot write its CSINode; it tries again", r.node.ensure) })
	for {
		found := r.find(watcher)
		wait := r.pass(ctx, found, &talks)
		timer := time.NewTimer(wait)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		case <-r.wake:
		case <-events:
		}
		timer.Stop()
	}
}

// find lists the sockets below the directory, and watches the directories. What begins with a dot is passed over.
func (r *registry) find(watcher *fsnotify.Watcher) map[string]*syscall.Stat_t {
	found := map[string]*syscall.Stat_t{}
	seen, depth := 0, strings.Count(r.dir, "/")
	_ = filepath.WalkDir(r.dir, func(path string, entry fs.DirEntry, err error) error {
		seen++
		switch {
		case seen > findLimit:
			return fs.SkipAll
		case err != nil:
			return nil
		case entry.IsDir() && strings.Count(path, "/")-depth > findDepth:
			return fs.SkipDir
		case strings.HasPrefix(entry.Name(), ".") && path != r.dir:
			if entry.IsDir() {
				return fs.SkipDir
			}
		case entry.IsDir():
			if watcher != nil {
				_ = watcher.Add(path)
			}
		case entry.Type()&os.ModeSocket != 0:
			var st syscall.Stat_t
			if syscall.Lstat(path, &st) == nil {
				found[path] = &st
			}
		}
		return nil
	})
	return found
}

// pass begins to talk to sockets that are new or due again, and says when the next are.
func (r *registry) pass(ctx context.Context, found map[string]*syscall.Stat_t, talks *sync.WaitGroup) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, wait := time.Now(), lookPeriod
	talk := func(s *socket, f func()) {
		s.busy = true
		talks.Go(func() {
			panics.Do(r.logger, panics.Node, f)
			r.mu.Lock()
			s.busy = false
			r.mu.Unlock()
			select {
			case r.wake <- struct{}{}:
			default:
			}
		})
	}
	for path, s := range r.sockets {
		st := found[path]
		if s.busy || st != nil && st.Ino == s.inode && st.Ctim == s.made {
			continue
		}
		delete(r.sockets, path)
		name, ok := r.at(path)
		if !ok || st != nil {
			continue
		}
		delete(r.drivers, name)
		r.logger.Info("a CSI driver has gone; the kubelet takes it out of the CSINode", "driver", name)
		if r.succeed(name) {
			continue
		}
		gone := &socket{foreign: true} // nobody registers here until the node's objects know
		r.sockets[path] = gone
		talk(gone, func() { r.leave(ctx, name) })
	}
	for path, st := range found {
		s := r.sockets[path]
		if s == nil {
			s = &socket{inode: st.Ino, made: st.Ctim}
			r.sockets[path] = s
		}
		if s.busy || s.foreign || s.driver != "" {
			continue
		}
		if left := s.retry.Sub(now); left > 0 {
			wait = min(wait, left)
			continue
		}
		talk(s, func() { r.register(ctx, path, s) })
	}
	return wait
}

// at is the driver that a registration socket is of, also when it was gone before it heard that it is registered.
func (r *registry) at(socket string) (driver string, ok bool) {
	for name, d := range r.drivers {
		if d.socket == socket {
			return name, true
		}
	}
	return "", false
}

// succeed has other sockets at which a driver has registered do so again, and says whether there are any.
func (r *registry) succeed(driver string) bool {
	any := false
	for _, s := range r.sockets {
		if s.driver == driver {
			s.driver, s.retry, any = "", time.Time{}, true
		}
	}
	return any
}

// leave takes a driver out of the node's objects.
func (r *registry) leave(ctx context.Context, driver string) {
	r.persist(ctx, "the kubelet cannot take a CSI driver that has gone out of its CSINode; it tries again", func(ctx context.Context) error { return r.node.remove(ctx, driver) })
}

// persist calls f until it succeeds, or ctx ends. trouble is logged with its errors, but the first: when a node is new it has no Node yet.
func (r *registry) persist(ctx context.Context, trouble string, f func(context.Context) error) {
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		err := panics.Try(r.logger, panics.Node, func() error { return f(ctx) })
		if err == nil {
			return
		}
		if ctx.Err() == nil && pause > firstPause {
			r.logger.Warn(trouble, "error", err)
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
	}
}

// errForeign says that a socket is of another kind of plug-in.
var errForeign = errors.New("it is not a CSI driver")

// register makes a driver known. The driver hears how that went.
func (r *registry) register(ctx context.Context, path string, s *socket) {
	name, endpoint, err := r.introduce(ctx, path)
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		s.driver, s.pause = name, 0
		r.logger.Info("a CSI driver has registered", "driver", name, "endpoint", endpoint)
	case errors.Is(err, errForeign):
		s.foreign = true
	case ctx.Err() == nil:
		s.pause = min(max(firstPause, 2*s.pause), longestPause)
		s.retry = time.Now().Add(s.pause)
		r.logger.Warn("the kubelet could not register a CSI driver; it tries again", "socket", path, "error", err)
	}
}

// introduce asks who serves at a registration socket, writes that to the node's objects, and says so to the driver.
func (r *registry) introduce(ctx context.Context, path string) (name, endpoint string, err error) {
	conn, err := dial(path)
	if err != nil {
		return "", "", err
	}
	defer conn.Close()
	client := registration.NewRegistrationClient(conn)
	short, cancel := context.WithTimeout(ctx, registrationTimeout)
	defer cancel()
	info, err := client.GetInfo(short, &registration.InfoRequest{})
	if err != nil {
		return "", "", fmt.Errorf("failed to get plugin info using RPC GetInfo at socket %s, err: %w", path, err)
	}
	if info.Type != registration.CSIPlugin {
		return "", "", errForeign
	}
	endpoint = info.Endpoint
	if endpoint == "" {
		endpoint = path
	}
	if err = checkVersions(info.Name, info.SupportedVersions); err == nil {
		err = r.describe(ctx, info.Name, endpoint)
	}
	if err == nil { // before the driver hears of it
		r.mu.Lock()
		r.drivers[info.Name] = registered{endpoint, path}
		r.mu.Unlock()
	}
	answer := &registration.RegistrationStatus{PluginRegistered: err == nil}
	if err != nil {
		answer.Error = fmt.Sprintf("RegisterPlugin error -- plugin registration failed with err: %v", err)
	}
	told, cancel := context.WithTimeout(ctx, registrationTimeout)
	defer cancel()
	if _, failed := client.NotifyRegistrationStatus(told, answer); err == nil && failed != nil {
		err = fmt.Errorf("tell driver %s that it is registered: %w", info.Name, failed)
	}
	return info.Name, endpoint, err
}

// describe asks a driver what the node is to it, and writes that to the node's objects.
func (r *registry) describe(ctx context.Context, name, endpoint string) error {
	return call(ctx, endpoint, func(ctx context.Context, node csi.NodeClient) error {
		info, err := node.NodeGetInfo(ctx, &csi.NodeGetInfoRequest{})
		if err != nil {
			return err
		}
		if info.NodeId == "" {
			return errors.New("error adding CSI driver node info: nodeID must not be empty")
		}
		return r.node.add(ctx, name, info)
	})
}

// checkVersions wants a version 1 of the protocol among those that a driver speaks.
func checkVersions(driver string, versions []string) error {
	for _, v := range versions {
		if parsed, err := version.ParseGeneric(v); err == nil && parsed.Major() == 1 {
			return nil
		}
	}
	return fmt.Errorf("none of the CSI versions reported by driver %s %q are supported", driver, versions)
}
