package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/server/v3/etcdserver"
)

// disk admits writes to the etcd in this process as far as its disk has room: a write that fails inside etcd ends etcd. It tells three
// kinds of them apart. Those that grow the data (creates, and updates that make an object larger) are for the free space. Those that
// keep its size (updates: heartbeats, statuses, the mark of a deletion) and those that shrink it (deletes, compaction) may also use the
// [reserve], each down to a line of its own, so that deletes work longest. Reads are never refused.
//
// What a write takes is known only when etcd's database has been committed. So disk counts each write at the highest it may cost until
// it looks again: then it commits, asks the file system, and begins to count anew. While there is plenty it looks every lookInterval,
// and no write waits for it.
type disk struct {
	dir    string
	server *etcdserver.EtcdServer
	log    *slog.Logger

	flying atomic.Int64 // highest cost of the writes that are under way
	logged atomic.Int64 // bytes that all writes so far may have put into etcd's log
	plenty atomic.Int64 // what writes under way may cost together without a look; 0 when there is not plenty
	full   atomic.Bool  // writes that grow the data are refused

	// mu guards what follows: whoever has put something in may go on. It is no Mutex, because a commit in an etcd that has just
	// ended never returns, and nobody must wait for that.
	mu       chan struct{}
	reserve  reserve
	state    state              // at the last look
	room     [shrinks + 1]int64 // what writes of each demand may cost until the next look
	spent    int64              // highest cost of what the last look may not have seen
	looked   time.Time          // when the last look ended
	logSeen  int64              // logged at the last look
	logBegan int64              // logged when etcd went on to its present log file, or before
	logKnown bool               // whether logBegan is
	logRead  int64              // logged when the log's present file was last read
	logLeft  int64              // what the log can take without further space, at the last look
	refused  time.Time          // when a growing write last was
	snapped  time.Time          // when look has last made etcd write a snapshot, or tried to
	failed   string             // the last error of a look that was logged
}

// demand is what a write does to the size of the data.
type demand int

const (
	grows   demand = iota
	keeps          // or grows it by slightGrowth at most
	shrinks        // or is needed for that
)

// slightGrowth is by how much an update may grow an object and still keep its size: the mark of a deletion and an entry of
// managedFields fit.
const slightGrowth = 4 << 10

const (
	lookInterval = 100 * time.Millisecond
	// lookAgain is how soon a write that would be refused causes another look. It bounds what many such writes cost.
	lookAgain = 10 * time.Millisecond
	// waitForOthers is how long a write waits for those under way before it looks again.
	waitForOthers = time.Millisecond
	// plentyBytes is more than can be written to a disk in several lookIntervals.
	plentyBytes = 1 << 30

	// writeCost is the highest cost of a write in the database besides its value: the pages on the way to it, written anew.
	writeCost = 64 << 10
	// logCost is the highest cost of a write in the log besides its value.
	logCost = 2 << 10

	// mostUnseen is how much may be written between two looks when there is not plenty: another process may fill the disk in this
	// time, or the unused pages in the database may not be where they are needed; then the reserve has to take it. It is enough
	// for the largest value. With that much room the disk is no longer called full.
	mostUnseen = 4 << 20
	// keepsLine and shrinksLine are how much of the database's reserve updates and deletes leave, logLine how much of the log.
	keepsLine, shrinksLine, logLine = databaseReserve / 4, databaseReserve / 8, 1 << 20
	// mostReserved is how much may be taken from the reserve between two looks: at half of it, the log's part, less than overshoot.
	mostReserved = 3 << 20
	// logReadAgain is after how many bytes the log's file is read again, when it is almost full by count.
	logReadAgain = 1 << 20
	// snapshotInterval is the least time between two snapshots for the sake of the log's files.
	snapshotInterval = time.Second
	// calm is how long no write must have been refused for the disk to be called full no longer.
	calm = 10 * time.Second
	// othersTake is how long a process that takes every free byte needs at most to take the loose files' space.
	othersTake = 500 * time.Millisecond
	// freeLow is the free space below which nothing is written when etcd's next snapshot is due.
	freeLow = 256 << 10
	// hardlyAny is the room for growing writes below which the disk is called full, before one is refused.
	hardlyAny = 256 << 10
)

func newDisk(dir string, server *etcdserver.EtcdServer, log *slog.Logger) *disk {
	return &disk{dir: dir, server: server, log: log, reserve: reserve{dir: dir}, mu: make(chan struct{}, 1)}
}

// cost is the highest that a write of a value of this many bytes can take from the disk: once in the log, once in the database.
func cost(bytes int) int64 { return 2*int64(bytes) + writeCost }

// admit is called before a write; done with the same number after it, if it was admitted. bytes is the length of the value, replaced
// (for keeps) that of the value in whose place it comes. The error is an ErrNoSpace, or the context's.
func (d *disk) admit(ctx context.Context, want demand, bytes int, replaced func() int) error {
	c := cost(bytes)
	if d.flying.Add(c) <= d.plenty.Load() {
		d.logged.Add(int64(bytes) + logCost)
		return nil
	}
	d.flying.Add(-c)
	if want == keeps && bytes > replaced()+slightGrowth {
		want = grows
	}
	select {
	case d.mu <- struct{}{}:
	case <-ctx.Done():
		return &certainError{ctx.Err()}
	}
	defer func() { <-d.mu }()
	fits := func() bool { return d.spent+c <= d.room[want] }
	if !fits() && (d.spent > 0 || time.Since(d.looked) > lookAgain) {
		d.look(ctx)
	}
	for !fits() {
		if c > d.room[want] {
			if want == grows {
				d.refused = time.Now()
				if !d.full.Swap(true) {
					d.sayFull()
				}
			}
			return &certainError{fmt.Errorf("%w on the disk of etcd data directory %s (%s)", ErrNoSpace, d.dir, d.state)}
		}
		// It is for the writes under way that there is no room: they end soon.
		select {
		case <-time.After(waitForOthers):
			d.look(ctx)
		case <-ctx.Done():
			return &certainError{ctx.Err()}
		}
	}
	d.spent += c
	d.flying.Add(c)
	d.logged.Add(int64(bytes) + logCost)
	return nil
}

func (d *disk) done(bytes int) { d.flying.Add(-cost(bytes)) }

// tick looks once, unless somebody is looking.
func (d *disk) tick(ctx context.Context) {
	select {
	case d.mu <- struct{}{}:
		d.look(ctx)
		<-d.mu
	default:
	}
}

// look finds out what there is room for. The caller has mu.
func (d *disk) look(ctx context.Context) {
	free, err := freeBytes(d.dir)
	plenty := err == nil && free > 2*plentyBytes && d.failed == ""
	logged := d.logged.Load()
	if plenty && d.plenty.Load() > 0 && logged == d.logSeen {
		d.plenty.Store(free - plentyBytes)
		return // nothing was written
	}
	if !plenty {
		d.plenty.Store(0) // every write waits for mu from here on: those that the commit may miss are in flying
	}
	d.spent = d.flying.Load()
	b := d.server.Backend()
	var failed error
	if !plenty {
		b.ForceCommit()
		failed = d.makeRoom(ctx, free)
	}
	s, err := d.reserve.tend(b.Size(), b.SizeInUse())
	if err == nil {
		err = d.followLog(&s, logged, plenty)
	}
	d.state, d.room = s, s.room()
	if plenty {
		d.plenty.Store(s.free - plentyBytes)
	}
	d.looked = time.Now()
	d.report(s, errors.Join(failed, err))
}

// makeRoom makes etcd write a snapshot when that gives back space, or when the next one would come soon: until then another process may
// have filled the disk. When it has already, makeRoom gives up the loose files for the snapshot. What is left of them afterwards is reserved again at once.
func (d *disk) makeRoom(ctx context.Context, free int64) error {
	due, err := d.snapshotDue()
	if err != nil || !due && (d.state.oldLog == 0 || time.Since(d.snapped) < snapshotInterval) {
		return err
	}
	if d.logLeft < logLine/2 {
		return nil
	}
	d.snapped = time.Now()
	if free >= looseLow {
		return d.snapshot(ctx, snapshotCount+1)
	}
	// The loose files are given up for as short as can be: right before the last few entries.
	if !d.alone(ctx) {
		return nil
	}
	if err := d.snapshot(ctx, snapshotCount-fewEntries); err != nil {
		return err
	}
	given, err := d.reserve.release()
	if err != nil {
		return err
	}
	if given {
		time.Sleep(othersTake)
	}
	if free, err = freeBytes(d.dir); err != nil || free < freeLow {
		return err
	}
	return d.snapshot(ctx, snapshotCount+1)
}

// alone waits until no write is under way, and says whether that is so.
func (d *disk) alone(ctx context.Context) bool {
	for deadline := time.Now().Add(snapshotInterval); d.flying.Load() > 0; time.Sleep(waitForOthers) {
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
// of an earlier run it reads the file, if it matters. It also notes whether a snapshot is due.
func (d *disk) followLog(s *state, logged int64, plenty bool) (err error) {
	if s.newTail {
		d.logBegan, d.logKnown = d.logSeen, d.logSeen > 0
	}
	d.logSeen = logged
	if plenty {
		return nil
	}
	if logged-d.logBegan > segmentBytes*3/4 && logged-d.logRead > logReadAgain {
		d.logKnown = false // what was counted is more than what was written
	}
	if !d.logKnown {
		written, err := d.reserve.written()
		if err != nil {
			return err
		}
		d.logBegan, d.logKnown, d.logRead = logged-written, true, logged
	}
	s.logLeft = max(0, segmentBytes-(logged-d.logBegan))
	if s.log {
		s.logLeft += segmentBytes
	}
	d.logLeft = s.logLeft
	s.snapshotDue, err = d.snapshotDue()
	return err
}

// room is what writes of each demand may cost.
func (s state) room() (r [shrinks + 1]int64) {
	if s.snapshotDue && s.free < looseLow {
		return r // it would end etcd
	}
	database, log := s.database, s.logLeft
	if s.unreserved { // what is free has to do
		database = min(s.free/4, databaseReserve)
		log = database
	}
	reserved := func(line int64) int64 {
		return max(0, min(database-line, log-logLine, mostReserved))
	}
	r[keeps], r[shrinks] = reserved(keepsLine), reserved(shrinksLine)
	if s.complete() {
		r[grows] = min(max(0, s.free-margin, s.pages/2), mostUnseen)
		r[keeps], r[shrinks] = max(r[keeps], r[grows]), max(r[shrinks], r[grows])
	}
	return r
}

func (d *disk) sayFull() {
	d.log.Error("the disk of etcd is full; the store refuses creates, and updates that make objects larger, until there is room: delete objects, or free space on the disk",
		"directory", d.dir, "freeBytes", d.state.free)
}

// report logs when the disk becomes full and when it no longer is, and why the reserve cannot be kept.
func (d *disk) report(s state, err error) {
	switch grow := d.room[grows]; {
	case grow < hardlyAny && !d.full.Swap(true):
		d.sayFull()
	case grow >= mostUnseen && time.Since(d.refused) > calm && d.full.Swap(false):
		d.log.Info("the disk of etcd has room again; the store accepts all writes", "directory", d.dir, "freeBytes", s.free)
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != d.failed {
		d.log.Error("the store could not reserve the disk space that etcd needs when the disk is full; it tries again", "directory", d.dir, "error", err)
	}
	d.failed = text
}
