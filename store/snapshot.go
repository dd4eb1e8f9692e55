package store

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"golang.org/x/sync/errgroup"
)

const (
	// snapshotAhead is how many entries before etcd's next snapshot disk makes room for it, when there is none: more than there can
	// be between two looks.
	snapshotAhead = 100
	// fewEntries are left to etcd itself (leases that end) while there is no room for a snapshot.
	fewEntries = 20
	// entryCost is what an entry without contents takes in the log, at most.
	entryCost = 128
)

// sinceSnapshot returns how many entries etcd's log has behind the last snapshot.
func (d *disk) sinceSnapshot() (entries uint64, err error) {
	files, err := os.ReadDir(filepath.Join(d.dir, "member", "snap"))
	if err != nil {
		return 0, err
	}
	last := uint64(0)
	for _, f := range files { // TERM-INDEX.snap, both in hexadecimal
		name, ok := strings.CutSuffix(f.Name(), ".snap")
		if _, index, two := strings.Cut(name, "-"); ok && two {
			if n, err := strconv.ParseUint(index, 16, 64); err == nil {
				last = max(last, n)
			}
		}
	}
	return d.server.AppliedIndex() - last, nil
}

// snapshot fills etcd's log up to so many entries after the last snapshot: etcd writes another one, for which it must have room, when
// they are more than snapshotCount. There is no call for that; a question for its alarms is an entry that changes nothing.
func (d *disk) snapshot(ctx context.Context, entries uint64) error {
	const atOnce = 100
	have, err := d.sinceSnapshot()
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for ; have < entries; have++ {
		group.Go(func() error {
			d.logged.Add(entryCost)
			_, err := d.server.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET})
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return fmt.Errorf("make etcd write a snapshot: %w", err)
	}
	return nil
}
