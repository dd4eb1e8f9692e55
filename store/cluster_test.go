package store_test

import (
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"vigil/store"
	"vigil/store/storetest"
)

// TestCluster runs a store on three members and stops the leader: writes go on, and the feed has all of them.
func TestCluster(t *testing.T) {
	members, endpoints := startCluster(t, 3)
	cfg := store.Config{Endpoints: endpoints}
	s := storetest.Open(t, cfg)
	feed := storetest.Record(t.Context(), t, s, 0)
	const writers, each = 4, 40
	var mu sync.Mutex
	done := 0
	half := make(chan struct{})
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				createUntilDone(t, s, fmt.Sprintf("/registry/pods/%d-%d", w, i))
				mu.Lock()
				if done++; done == writers*each/2 {
					close(half)
				}
				mu.Unlock()
			}
		})
	}
	<-half
	leader := stopLeader(t, members)
	wg.Wait()
	rev, err := s.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RequestProgress(t.Context()); err != nil {
		t.Fatal(err)
	}
	events := feed.WaitFor(t, rev)
	if len(events) != writers*each {
		t.Errorf("%d events after member %d went, want %d", len(events), leader, writers*each)
	}
	if err := s.Health(t.Context()); err != nil {
		t.Errorf("health with two of three members: %v", err)
	}
}

// startCluster starts n members on loopback, in plain text.
func startCluster(t *testing.T, n int) (members []*embed.Etcd, endpoints []string) {
	t.Helper()
	var peers, clients []url.URL
	var initial []string
	for i := range n {
		peers = append(peers, freeURL(t))
		clients = append(clients, freeURL(t))
		initial = append(initial, fmt.Sprintf("m%d=%s", i, peers[i].String()))
		endpoints = append(endpoints, clients[i].String())
	}
	for i := range n {
		c := embed.NewConfig()
		c.Name = fmt.Sprintf("m%d", i)
		c.Dir = filepath.Join(t.TempDir(), "etcd")
		c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		c.UnsafeNoFsync = true
		c.TickMs, c.ElectionMs = 50, 500
		c.ListenPeerUrls, c.AdvertisePeerUrls = peers[i:i+1], peers[i:i+1]
		c.ListenClientUrls, c.AdvertiseClientUrls = clients[i:i+1], clients[i:i+1]
		c.InitialCluster = strings.Join(initial, ",")
		e, err := embed.StartEtcd(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeMember(e) })
		members = append(members, e)
	}
	for _, e := range members {
		select {
		case <-e.Server.ReadyNotify():
		case <-time.After(5 * time.Minute):
			t.Fatal("cluster does not start")
		}
	}
	return members, endpoints
}

// freeURL is an address that nobody listens on just now.
func freeURL(t *testing.T) url.URL {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return url.URL{Scheme: "http", Host: l.Addr().String()}
}

// closeMember closes a member that may be closed already; embed's Close panics the second time.
func closeMember(e *embed.Etcd) {
	select {
	case <-e.Server.StopNotify():
	default:
		e.Close()
	}
}

func stopLeader(t *testing.T, members []*embed.Etcd) int {
	t.Helper()
	for i, e := range members {
		if uint64(e.Server.MemberID()) == e.Server.Lead() {
			closeMember(e)
			return i
		}
	}
	t.Fatal("no leader")
	return -1
}
