package network

import (
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/vishvananda/netns"

	"vigil/internal/nstest"
)

// enter runs a function in a node's network namespace.
func enter(path string) func(testing.TB, func()) {
	return func(t testing.TB, do func()) {
		t.Helper()
		if err := InNamespace(path, func() error { do(); return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

// A node's link is made anew when its namespace was: the former one may still live, with the other end of the link in it.
func TestSegment_NamespaceIsAnother(t *testing.T) {
	nstest.Need(t)
	owner := filepath.Join(t.TempDir(), "data")
	s := NewSegment(owner)
	t.Cleanup(func() { _ = Remove(owner) })
	if err := s.Ensure(); err != nil {
		t.Fatal(err)
	}
	path, err := s.Join(1, "node-2")
	if err != nil {
		t.Fatal(err)
	}
	former, err := netns.GetFromPath(path)
	if err != nil {
		t.Fatal(err)
	}
	defer former.Close()
	if err := removeNamespace(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Join(1, "node-2"); err != nil {
		t.Fatal(err)
	}
	there := serve(t, enter(path), netip.AddrPortFrom(s.Address(1), 0).String())
	seenAs(t, "machine to node", outside, there, s.Address(0).String())
}

func TestSegment(t *testing.T) {
	nstest.Need(t)
	owner := filepath.Join(t.TempDir(), "data")
	s := NewSegment(owner)
	far := nstest.NewNamespace(t)
	outsideServer := serve(t, far.Do, netip.AddrPortFrom(far.Address, 0).String())
	t.Cleanup(func() { _ = Remove(owner) })
	var paths [3]string
	for range 2 { // the second time, as after a restart
		if err := s.Ensure(); err != nil {
			t.Fatal(err)
		}
		for i := 1; i <= 2; i++ {
			path, err := s.Join(i, []string{1: "node-2", 2: "node-3"}[i])
			if err != nil {
				t.Fatal(err)
			}
			if paths[i] != "" && paths[i] != path {
				t.Errorf("%s has become %s", paths[i], path)
			}
			paths[i] = path
		}
	}
	here := serve(t, outside, netip.AddrPortFrom(s.Address(0), 0).String())
	there := serve(t, enter(paths[2]), netip.AddrPortFrom(s.Address(2), 0).String())
	seenAs(t, "node to node", enter(paths[1]), there, s.Address(1).String())
	seenAs(t, "node to the machine", enter(paths[1]), here, s.Address(1).String())
	seenAs(t, "machine to node", outside, there, s.Address(0).String())
	seenAs(t, "node to elsewhere", enter(paths[1]), outsideServer, nstest.BridgeAddress.String())

	listener, err := Listen(paths[1], "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	conn := open(t, enter(paths[1]), "tcp", netip.MustParseAddrPort(listener.Addr().String()))
	conn.Close()
	listener.Close()

	if left, err := Left(owner); err != nil || len(left) != 6 { // a bridge, two ports, two namespaces, a table
		t.Errorf("made: %v, %v", left, err)
	}
	for range 2 { // the second time nothing is there
		if err := s.Leave("node-3"); err != nil {
			t.Error(err)
		}
	}
	if left, err := Left(owner); err != nil || len(left) != 4 {
		t.Errorf("left when a node has gone: %v, %v", left, err)
	}
	if err := Remove(owner); err != nil {
		t.Error(err)
	}
	if left, err := Left(owner); err != nil || len(left) > 0 {
		t.Errorf("left: %v, %v", left, err)
	}
	if _, err := s.Join(MaxSegmentNodes+1, "one-too-many"); err == nil {
		t.Error("one node too many was let in")
	}
}
