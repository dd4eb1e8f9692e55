package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
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
// it looks again: then it commits, asks the file system, and begins to count anew. One goroutine looks, every lookInterval and when a write asks
// for it. A write for which the last look has found room goes on while the next look is under way.
type disk struct {
	dir    string
	server *etcdserver.EtcdServer
	log    *slog.Logger
	done   <-chan struct{} // closed when etcd has ended
	ask    chan struct{}   // has an entry when a write asks for a look

	flying atomic.Int64 // highest cost of the writes that are under way
	logged atomic.Int64 // bytes that all writes so far may have put into etcd's log
	plenty atomic.Int64 // what writes under way may cost together without a look; 0 when there is not plenty
	full   atomic.Bool  // writes that grow the data are refused

	mu      sync.Mutex         // guards what follows; nobody holds it while etcd or the file system is asked
	state   state              // at the last look; only look changes it
	room    [shrinks + 1]int64 // what writes of each demand may cost until the next look
	spent   int64              // highest cost of what the last look may not have seen
	during  int64              // the part of spent that was admitted since the look under way began
	looking bool               // a look is under way
	found   [shrinks + 1]int64 // room as the last look has found it
	ended   chan struct{}      // closed when the look under way ends, or the next one
	looked  time.Time          // when the last look ended
	refused time.Time          // when a growing write last was

	look look
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
	// lookPause is the least time between two looks: how long a write waits for those under way.
	lookPause = time.Millisecond
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
	// keepsLine and shrinksLine are how much of the database's reserve updates and deletes leave, logLine how much of the log. Updates leave
	// only pagesLine while the database has unused pages, as it has after a compaction: then it hardly grows.
	keepsLine, pagesLine, shrinksLine, logLine = databaseReserve / 2, databaseReserve * 3 / 16, databaseReserve / 8, 1 << 20
	// mostReserved is how much may be taken from the reserve between two looks: at half of it, the log's part, less than overshoot.
	mostReserved = 3 << 20
	// longestWait is how long a write waits for looks before it is refused.
	longestWait = 3 * time.Second
	// calm is how long no write must have been refused for the disk to be called full no longer.
	calm = 10 * time.Second
	// hardlyAny is the room for growing writes below which the disk is called full, before one is refused.
	hardlyAny = 256 << 10
)

func newDisk(dir string, server *etcdserver.EtcdServer, log *slog.Logger, done <-chan struct{}) *disk {
	d := &disk{dir: dir, server: server, log: log, done: done, ask: make(chan struct{}, 1), ended: make(chan struct{})}
	d.look = look{disk: d, reserve: reserve{dir: dir}}
	return d
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
	patience := time.NewTimer(longestWait)
	defer patience.Stop()
	for fresh, last := want == grows, false; ; fresh = true {
		ended, err := d.take(want, bytes, fresh, last)
		if errors.Is(err, ErrNoSpace) && want == grows && !d.full.Swap(true) {
			d.sayFull()
		}
		if ended == nil {
			return err
		}
		select {
		case d.ask <- struct{}{}:
		default:
		}
		select {
		case <-ended:
		case <-patience.C:
			last = true
		case <-d.done:
			return &certainError{fmt.Errorf("%w: the embedded etcd has ended", ErrUnavailable)}
		case <-ctx.Done():
			return &certainError{ctx.Err()}
		}
	}
}

// take admits a write or refuses it. When another look may find room for it, and this is not the last attempt, it returns what is closed when
// one has ended. fresh says that the last look will do if it has only just ended.
func (d *disk) take(want demand, bytes int, fresh, last bool) (ended <-chan struct{}, err error) {
	c := cost(bytes)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.spent+c <= d.room[want] {
		d.spent += c
		d.during += c
		d.flying.Add(c)
		d.logged.Add(int64(bytes) + logCost)
		return nil, nil
	}
	// What does not fit for the writes under way alone waits for them: they end soon.
	known := fresh && c > d.room[want] && !d.looking && time.Since(d.looked) < lookAgain
	if !known && !last {
		return d.ended, nil
	}
	if want == grows {
		d.refused = time.Now()
	}
	return nil, &certainError{fmt.Errorf("%w on the disk of etcd data directory %s (%s)", ErrNoSpace, d.dir, d.state)}
}

func (d *disk) finish(bytes int) { d.flying.Add(-cost(bytes)) }

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
	r[keeps], r[shrinks] = max(reserved(keepsLine), min(reserved(pagesLine), s.pages/2)), reserved(shrinksLine)
	if s.complete() {
		r[grows] = min(max(0, s.free-margin, s.pages/2), mostUnseen)
		r[keeps], r[shrinks] = max(r[keeps], r[grows]), max(r[shrinks], r[grows])
	}
	return r
}

func (d *disk) sayFull() {
	d.mu.Lock()
	free := d.state.free
	d.mu.Unlock()
	d.log.Error("the disk of etcd is full; the store refuses creates, and updates that make objects larger, until there is room: delete objects, or free space on the disk",
		"directory", d.dir, "freeBytes", free)
}
