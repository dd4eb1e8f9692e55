package logfile

import (
	"context"
	"path/filepath"
	"sync"

	"github.com/fsnotify/fsnotify"
)

// Watcher wakes those who follow files. The zero value works; without a Run it wakes nobody.
type Watcher struct {
	mu   sync.Mutex
	fs   *fsnotify.Watcher // nil while nothing runs, or where the system has no more of them
	dirs map[string]map[chan struct{}]struct{}
}

// Watch returns a channel that gets something after a change in a directory, until stop is called.
func (w *Watcher) Watch(dir string) (changes <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.dirs == nil {
		w.dirs = map[string]map[chan struct{}]struct{}{}
	}
	if w.dirs[dir] == nil {
		w.dirs[dir] = map[chan struct{}]struct{}{}
		if w.fs != nil {
			_ = w.fs.Add(dir) // without it they look every second
		}
	}
	w.dirs[dir][c] = struct{}{}
	return c, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.dirs[dir], c)
		if len(w.dirs[dir]) == 0 {
			delete(w.dirs, dir)
			if w.fs != nil {
				_ = w.fs.Remove(dir) // it may have been removed with its pod
			}
		}
	}
}

// Run watches until ctx ends.
func (w *Watcher) Run(ctx context.Context) error {
	fs, err := fsnotify.NewWatcher()
	if err != nil {
		<-ctx.Done() // they look every second
		return nil
	}
	defer fs.Close()
	w.mu.Lock()
	w.fs = fs
	for dir := range w.dirs {
		_ = fs.Add(dir)
	}
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.fs = nil
	}()
	for {
		select {
		case <-ctx.Done():
			return nil
		case e, ok := <-fs.Events:
			if !ok {
				return nil
			}
			w.wake(filepath.Dir(e.Name))
		case _, ok := <-fs.Errors: // events were lost
			if !ok {
				return nil
			}
			w.wakeAll()
		}
	}
}

func (w *Watcher) wake(dir string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.dirs[dir] {
		signal(c)
	}
}

func (w *Watcher) wakeAll() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, all := range w.dirs {
		for c := range all {
			signal(c)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
