package serviceip

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"vigil/kinds/core"
	"vigil/object"
	"vigil/store"
	"vigil/store/storetest"
)

// ledger is who uses what, kept by the services themselves: from when they are told until they let go.
type ledger struct {
	mu    sync.Mutex
	users map[any]string
}

func (l *ledger) use(t *testing.T, svc *corev1.Service) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, thing := range thingsOf(svc) {
		if other, found := l.users[thing]; found {
			t.Errorf("%v given to %s and to %s", thing, other, svc.Name)
		}
		l.users[thing] = svc.Name
	}
}

func (l *ledger) letGo(svc *corev1.Service) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, thing := range thingsOf(svc) {
		delete(l.users, thing)
	}
}

func thingsOf(svc *corev1.Service) []any {
	var things []any
	for _, ip := range svc.Spec.ClusterIPs {
		things = append(things, ip)
	}
	for _, p := range nodePorts(svc) {
		things = append(things, p)
	}
	return things
}

// TestConcurrent lets several API servers allocate from small ranges, delete, roll back, fail and repair at the same
// time. Nothing may be given to two, and after a last repair just what the services have is taken.
func TestConcurrent(t *testing.T) {
	const servers, workers, rounds = 3, 4, 25
	s := storetest.New(t)
	l := &ledger{users: map[any]string{}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()

	var alive sync.Map // name to *corev1.Service
	var work, repairs sync.WaitGroup
	stop := make(chan struct{})
	for server := range servers {
		a, err := New(Config{
			Store: s, NodePorts: PortRange{30000, 30063},
			ServiceRanges: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/26"), netip.MustParsePrefix("fd00::/122")},
		})
		if err != nil {
			t.Fatal(err)
		}
		repairs.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				// Repair frees ports by counting rounds, which no request outlives when they are minutes apart. Here they
				// are not, so start counting anew each time.
				a.leaks.mu.Lock()
				a.leaks.rounds = nil
				a.leaks.mu.Unlock()
				if err := a.Repair(ctx); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for worker := range workers {
			work.Go(func() {
				w := &client{t: t, a: a, s: s, l: l, alive: &alive, rng: rand.New(rand.NewPCG(uint64(server), uint64(worker)))}
				for round := range rounds {
					w.step(ctx, "s"+itoa(int64(server*1000000+worker*1000+round)))
				}
			})
		}
	}
	work.Wait()
	close(stop)
	repairs.Wait()

	wantIPs, wantPorts := 0, 0
	alive.Range(func(_, v any) bool {
		svc := v.(*corev1.Service)
		wantIPs += len(svc.Spec.ClusterIPs)
		wantPorts += len(nodePorts(svc))
		return true
	})
	c := newCluster(t, s, "10.96.0.0/26", "fd00::/122")
	c.ports.ports = PortRange{30000, 30063}
	// A repair that saw a service without its address may have taken the address just after the service went. The
	// next repair finds that, once the address is old enough.
	c.now = func() time.Time { return time.Now().Add(grace + time.Minute) }
	c.repair()
	if got := len(c.takenAddresses()); got != wantIPs {
		t.Errorf("%d addresses taken, services have %d", got, wantIPs)
	}
	if got := len(c.takenPorts()); got != wantPorts {
		t.Errorf("%d ports taken, services have %d", got, wantPorts)
	}
	if wantIPs == 0 || wantPorts == 0 {
		t.Error("nothing was left to compare")
	}
}

// client is one user of the API in TestConcurrent.
type client struct {
	t     *testing.T
	a     *Allocator
	s     *store.Store
	l     *ledger
	alive *sync.Map
	rng   *rand.Rand
	mine  []*corev1.Service
}

func (w *client) step(ctx context.Context, name string) {
	if len(w.mine) > 2 || len(w.mine) > 0 && w.rng.IntN(3) == 0 {
		w.remove(ctx)
		return
	}
	svc := service(name, ofType(corev1.ServiceTypeNodePort), withPolicy(prefer))
	core.Service().Default(svc)
	commit, rollback, err := w.a.Prepare(ctx, svc, nil)
	if err != nil {
		if !apierrors.IsInternalError(err) {
			w.t.Error(err)
		}
		return // a range is full
	}
	if w.rng.IntN(4) == 0 {
		rollback()
		return
	}
	w.l.use(w.t, svc)
	value, err := object.EncodeStored(core.Service().Type, svc)
	if err != nil {
		w.t.Error(err)
		return
	}
	rev, err := w.s.Create(ctx, serviceKey(svc), value, 0)
	if err != nil {
		w.t.Error(err)
		return
	}
	svc.ResourceVersion = itoa(rev)
	commit()
	w.alive.Store(name, svc)
	w.mine = append(w.mine, svc)
}

func (w *client) remove(ctx context.Context) {
	svc := w.mine[0]
	w.mine = w.mine[1:]
	w.l.letGo(svc)
	w.alive.Delete(svc.Name)
	if _, err := w.s.Delete(ctx, serviceKey(svc), revisionOf(svc)); err != nil {
		w.t.Error(err)
		return
	}
	w.a.Released(ctx, svc)
}

// BenchmarkPrepare is the cost of the addresses and ports of a service: a create and a delete.
func BenchmarkPrepare(b *testing.B) {
	for name, kind := range map[string]corev1.ServiceType{"ClusterIP": corev1.ServiceTypeClusterIP, "NodePort": corev1.ServiceTypeNodePort} {
		b.Run(name, func(b *testing.B) {
			a, err := New(Config{Store: storetest.New(b)})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				svc := service("web", ofType(kind))
				_, rollback, err := a.Prepare(b.Context(), svc, nil)
				if err != nil {
					b.Fatal(err)
				}
				rollback()
			}
		})
	}
}
