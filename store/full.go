package store

import "fmt"

// Full says in one line what etcd refuses for lack of space, and what to do; "" while there is space. It names no files: whoever may ask for
// health may read it.
func (s *Store) Full() string { return s.engine.full() }

func (l *local) full() string {
	if notice := l.embedded.disk.notice(); notice != "" {
		return notice
	}
	return quotaNotice(l.noSpace.Load())
}

func (r *remote) full() string { return quotaNotice(r.noSpace.Load()) }

// quotaNotice is for an etcd that has raised its NOSPACE alarm.
func quotaNotice(alarmed bool) string {
	if !alarmed {
		return ""
	}
	return "etcd has reached its quota: creates and updates are refused, reads and deletes go on; delete objects that are not needed"
}

// notice is Full for the disk.
func (d *disk) notice() string {
	if !d.full.Load() {
		return ""
	}
	d.mu.Lock()
	free, room := d.state.free, d.room
	if d.looking { // there may be no room for the time of a look
		room = d.found
	}
	d.mu.Unlock()
	refused := "creates, and updates that make objects larger, are refused, all else goes on"
	switch {
	case room[shrinks] < cost(0):
		refused = "all writes are refused, reads go on"
	case room[keeps] < cost(0):
		refused = "creates and updates are refused, reads and deletes go on"
	}
	return fmt.Sprintf("the disk of etcd is full (%d MiB free): %s; delete objects that are not needed, or free space on it", free>>20, refused)
}
