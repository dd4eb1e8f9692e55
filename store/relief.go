package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/etcdserver"
)

// relief makes space in an etcd that refuses writes for lack of it. History is what etcd can do without: feeds are seldom further behind
// than historyKept.
type relief struct {
	engine engine
	log    *slog.Logger
	rev    int64     // etcd's revision at some time; 0 while there is space
	since  time.Time // that time
	done   int64     // the revision of the last compaction here
	ended  time.Time // when that was
	tried  int64     // done when etcd was last defragmented whatever it said
	failed string    // the last error that was logged
}

const (
	// reliefInterval is how often an etcd without space is looked after.
	reliefInterval = time.Second
	// historyKept is the least age of history that an etcd without space loses.
	historyKept = 5 * time.Second
	// compactionTime is how long etcd may work on a compaction after it has answered, as far as relief waits for it.
	compactionTime = 2 * time.Second
)

// step is called every reliefInterval.
func (r *relief) step(ctx context.Context) {
	if !r.engine.pressed() {
		r.rev, r.failed = 0, ""
		return
	}
	err := r.compact(ctx)
	if err == nil {
		// Etcd says what its database holds as of the last commit but one. When nothing was written since the compaction, only a
		// defragmentation shows what that has freed.
		stale := r.done != 0 && r.done == r.rev && r.tried != r.done && time.Since(r.ended) > compactionTime
		if stale {
			r.tried = r.done
		}
		err = r.engine.relieve(ctx, r.log, stale)
	}
	if err == nil || ctx.Err() != nil || errors.Is(err, ErrNoSpace) {
		return
	}
	if text := err.Error(); text != r.failed {
		r.failed = text
		r.log.Warn("etcd has no space left, and the store could not make some; it tries again", "error", err)
	}
}

// compact does not go by compact_rev_key, which cannot be written now. Other servers may do the same at the same time.
func (r *relief) compact(ctx context.Context) error {
	if r.rev != 0 && time.Since(r.since) < historyKept {
		return nil
	}
	to := r.rev
	var err error
	r.since = time.Now()
	if r.rev, err = r.engine.revision(ctx); err != nil || to == 0 || to == r.done {
		return err
	}
	if err := r.engine.compactTo(ctx, to); err != nil && !errors.Is(err, ErrCompacted) {
		return fmt.Errorf("compact to revision %d: %w", to, err)
	}
	r.done, r.ended = to, time.Now()
	return nil
}

// maintenance is the part of clientv3.Maintenance that disarm needs.
type maintenance interface {
	AlarmList(ctx context.Context) (*clientv3.AlarmResponse, error)
	AlarmDisarm(ctx context.Context, m *clientv3.AlarmMember) (*clientv3.AlarmResponse, error)
	Status(ctx context.Context, endpoint string) (*clientv3.StatusResponse, error)
	Defragment(ctx context.Context, endpoint string) (*clientv3.DefragmentResponse, error)
}

// localMaintenance defragments the etcd of this process by itself: the client without a network panics.
type localMaintenance struct {
	*clientv3.Client
	server *etcdserver.EtcdServer
}

func (m localMaintenance) Defragment(context.Context, string) (*clientv3.DefragmentResponse, error) {
	return nil, m.server.Defragment()
}

// quotaPercent is how full a database may be, of its quota, for etcd to be told that it has space again.
const quotaPercent = 90

// disarm ends etcd's NOSPACE alarm, by which it refuses writes once the database of a member has reached its quota, also after objects
// were deleted. It follows etcd's own advice for operators: compact (done before), defragment, disarm. It waits until what the
// members' databases hold is well below their quotas. Members are defragmented one by one; each answers nobody meanwhile.
// stale says that what they tell of that is older than the compaction. It returns whether there is no alarm any more.
func disarm(ctx context.Context, m maintenance, endpoints []string, log *slog.Logger, stale bool) (bool, error) {
	list, err := m.AlarmList(ctx)
	if err != nil {
		return false, fmt.Errorf("list alarms: %w", err)
	}
	alarmed := map[uint64]bool{}
	for _, a := range list.Alarms {
		if a.Alarm == pb.AlarmType_NOSPACE {
			alarmed[a.MemberID] = true
		}
	}
	if len(alarmed) == 0 {
		return true, nil
	}
	members := map[uint64]string{} // endpoints, each member once
	for _, endpoint := range endpoints {
		status, err := m.Status(ctx, endpoint)
		if err != nil {
			return false, fmt.Errorf("ask etcd at %s how full it is: %w", endpoint, err)
		}
		if !stale && !fits(status.DbSizeInUse, status) {
			return false, nil // until objects are deleted
		}
		if _, twice := members[status.Header.MemberId]; !twice && !fits(status.DbSize, status) {
			if _, err := m.Defragment(ctx, endpoint); err != nil {
				return false, fmt.Errorf("defragment etcd at %s: %w", endpoint, err)
			}
			if status, err = m.Status(ctx, endpoint); err != nil || !fits(status.DbSize, status) {
				return false, err
			}
		}
		members[status.Header.MemberId] = endpoint
	}
	for id := range alarmed {
		if _, known := members[id]; !known {
			return false, fmt.Errorf("etcd member %x has raised a NOSPACE alarm and is none of %s: defragment it, then run etcdctl alarm disarm",
				id, strings.Join(endpoints, ","))
		}
	}
	for id := range alarmed {
		if _, err := m.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: id, Alarm: pb.AlarmType_NOSPACE}); err != nil {
			return false, fmt.Errorf("disarm the NOSPACE alarm of etcd member %x: %w", id, err)
		}
	}
	log.Info("the database of etcd is smaller than its quota again; the store has disarmed the NOSPACE alarm, and accepts writes")
	return true, nil
}

// fits says whether size is well below the member's quota. Members before etcd 3.6 do not tell it; they raise the alarm at about the
// size that their database has.
func fits(size int64, status *clientv3.StatusResponse) bool {
	quota := status.DbSizeQuota
	if quota <= 0 {
		quota = status.DbSize
	}
	return size < quota/100*quotaPercent
}

func (r *remote) pressed() bool { return r.noSpace.Load() }

func (r *remote) relieve(ctx context.Context, log *slog.Logger, stale bool) error {
	done, err := disarm(ctx, r.client, r.client.Endpoints(), log, stale)
	if done {
		r.noSpace.Store(false)
	}
	return err
}

func (l *local) pressed() bool { return l.noSpace.Load() || l.embedded.disk.full.Load() }

func (l *local) relieve(ctx context.Context, log *slog.Logger, stale bool) error {
	if err := l.embedded.enter(); err != nil {
		return err
	}
	defer l.embedded.leave()
	if !l.noSpace.Load() || l.embedded.disk.full.Load() { // a defragmentation needs free space
		return nil
	}
	done, err := disarm(ctx, localMaintenance{l.embedded.client, l.server}, []string{""}, log, stale)
	if done {
		l.noSpace.Store(false)
	}
	return err
}
