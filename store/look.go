package store

import (
	"context"
	"errors"
	"time"
)

// look finds out what a [disk] has room for, and makes room. One goroutine at a time uses it.
type look struct {
	disk    *disk
	reserve reserve

	logSeen  int64     // disk.logged at the last look
	logBegan int64     // disk.logged when etcd went on to its present log file, or before
	logKnown bool      // whether logBegan is
	logRead  int64     // disk.logged when the log's present file was last read
	snapped  time.Time // when look has last made etcd write a snapshot, or tried to
	failed   string    // the last error of a look that was logged
}

const (
	// logReadAgain is after how many bytes the log's file is read again, when it is almost full by count.
	logReadAgain = 1 << 20
	// snapshotInterval is the least time between two snapshots for the sake of the log's files.
	snapshotInterval = time.Second
	// othersTake is how long a process that takes every free byte needs at most to take the loose files' space.
	othersTake = 500 * time.Millisecond
	// freeLow is the free space below which nothing is written when etcd's next snapshot is due.
	freeLow = 256 << 10
	// freeSafe is the free space that others do not take while etcd writes a snapshot, if they have taken little during steadyTime.
	freeSafe, steadyTime = 4 << 20, 5 * time.Millisecond
)

// once looks once.
func (l *look) once(ctx context.Context) {
	d := l.disk
	free, err := freeBytes(d.dir)
	plenty := err == nil && free > 2*plentyBytes && l.failed == ""
	if plenty && d.plenty.Load() > 0 && d.logged.Load() == l.logSeen {
		d.plenty.Store(free - plentyBytes)
		d.wake()
		return // nothing was written
	}
	if !plenty {
		d.plenty.Store(0) // take sees every write from here on: those that the commit may miss are in flying
	}
	d.mu.Lock()
	flying, logged := d.flying.Load(), d.logged.Load()
	d.looking, d.during = true, 0
	d.mu.Unlock()

	b := d.server.Backend()
	var failed error
	if !plenty {
		b.ForceCommit()
		failed = l.makeRoom(ctx)
	}
	s, err := l.reserve.tend(b.Size(), b.SizeInUse())
	if err == nil {
		err = l.followLog(&s, logged, plenty)
	}
	room := s.room()
	if plenty {
		d.plenty.Store(s.free - plentyBytes)
	}
	d.mu.Lock()
	d.state, d.room, d.found = s, room, room
	d.spent, d.looking, d.looked = flying+d.during, false, time.Now()
	refused := d.refused
	d.mu.Unlock()
	d.wake()
	l.report(s, room[grows], refused, errors.Join(failed, err))
}

// wake tells the writes that wait for a look that one has ended.
func (d *disk) wake() {
	d.mu.Lock()
	defer d.mu.Unlock()
	close(d.ended)
	d.ended = make(chan struct{})
}

// makeRoom makes etcd write a snapshot when that gives back space, or when the next one would come soon: until then another process may
// have filled the disk. A snapshot for which there is no room ends etcd. So makeRoom stops all writes for the last entries before it, and looks
// whether others leave the room; when they do not, it gives up the loose files for the snapshot. Others can still take the room between the
// look and the snapshot, and end etcd. What is left of them afterwards is reserved again at once.
func (l *look) makeRoom(ctx context.Context) error {
	d := l.disk
	due, err := d.snapshotDue()
	if err != nil || !due && (d.state.oldLog == 0 || time.Since(l.snapped) < snapshotInterval) {
		return err
	}
	if d.state.logLeft < logLine/2 {
		return nil
	}
	l.snapped = time.Now()
	if err := d.snapshot(ctx, snapshotCount-snapshotAhead); err != nil {
		return err
	}
	d.stop()
	if !d.alone(ctx) {
		return nil
	}
	if err := d.snapshot(ctx, snapshotCount-fewEntries); err != nil {
		return err
	}
	if safe, err := l.safe(); err != nil || !safe {
		return err
	}
	return d.snapshot(ctx, snapshotCount+1)
}

// safe says whether there is room for a snapshot that others leave alone, after it has given up the loose files if need be.
func (l *look) safe() (bool, error) {
	if steady, err := l.steady(); err != nil || steady {
		return steady, err
	}
	given, err := l.reserve.release()
	if err != nil {
		return false, err
	}
	if given {
		time.Sleep(othersTake)
	}
	free, err := freeBytes(l.disk.dir)
	return free >= freeLow, err
}

// steady says whether there is free space that others leave alone.
func (l *look) steady() (bool, error) {
	before, err := freeBytes(l.disk.dir)
	if err != nil || before < freeSafe {
		return false, err
	}
	time.Sleep(steadyTime)
	after, err := freeBytes(l.disk.dir)
	return after >= freeSafe && before-after < after/8, err
}

// stop lets no write in until the look under way ends.
func (d *disk) stop() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.room = [shrinks + 1]int64{}
}

// alone waits until no write is under way, and says whether that is so.
func (d *disk) alone(ctx context.Context) bool {
	for deadline := time.Now().Add(snapshotInterval); d.flying.Load() > 0; time.Sleep(lookPause) {
		if ctx.Err() != nil || time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// snapshotDue says that etcd will soon write a snapshot.
func (d *disk) snapshotDue() (bool, error) {
	entries, err := d.sinceSnapshot()
	return entries > snapshotCount-snapshotAhead, err
}

// followLog notes what is left of the log's present file, for which it must know how much was in the log when that began. For the file
// of an earlier run it reads the file, if it matters. It also notes whether a snapshot is due. While etcd goes on to its next file, what there was
// before still counts.
func (l *look) followLog(s *state, logged int64, plenty bool) (err error) {
	if s.rolling {
		before := l.disk.state
		s.log, s.logLeft = before.log, max(0, before.logLeft-(logged-l.logSeen))
		l.logSeen = logged
		s.snapshotDue, err = l.disk.snapshotDue()
		return err
	}
	if s.newTail {
		l.logBegan, l.logKnown = l.logSeen, l.logSeen > 0
	}
	l.logSeen = logged
	if plenty {
		return nil
	}
	if logged-l.logBegan > segmentBytes*3/4 && logged-l.logRead > logReadAgain {
		l.logKnown = false // what was counted is more than what was written
	}
	if !l.logKnown {
		written, err := l.reserve.written()
		if err != nil {
			return err
		}
		l.logBegan, l.logKnown, l.logRead = logged-written, true, logged
	}
	s.logLeft = max(0, segmentBytes-(logged-l.logBegan))
	if s.log {
		s.logLeft += segmentBytes
	}
	s.snapshotDue, err = l.disk.snapshotDue()
	return err
}

// report logs when the disk becomes full and when it no longer is, and why the reserve cannot be kept.
func (l *look) report(s state, room int64, refused time.Time, err error) {
	d := l.disk
	switch {
	case room < hardlyAny && !d.full.Swap(true):
		d.sayFull()
	case room >= mostUnseen && time.Since(refused) > calm && d.full.Swap(false):
		d.log.Info("the disk of etcd has room again; the store accepts all writes", "directory", d.dir, "freeBytes", s.free)
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != l.failed {
		d.log.Error("the store could not reserve the disk space that etcd needs when the disk is full; it tries again", "directory", d.dir, "error", err)
	}
	l.failed = text
}
