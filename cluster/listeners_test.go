package cluster

import (
	"errors"
	"net"
	"testing"
)

func TestMergeListeners(t *testing.T) {
	var all []net.Listener
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	if got := mergeListeners(all[0]); got != all[0] {
		t.Error("one listener was wrapped")
	}
	m := mergeListeners(all[0], all[1:]...)
	if m.Addr().String() != all[0].Addr().String() {
		t.Errorf("address %s, want that of the first, %s", m.Addr(), all[0].Addr())
	}
	for _, l := range all {
		client, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		server, err := m.Accept()
		if err != nil {
			t.Fatal(err)
		}
		if server.LocalAddr().String() != l.Addr().String() {
			t.Errorf("accepted at %s, want %s", server.LocalAddr(), l.Addr())
		}
		client.Close()
		server.Close()
	}
	waiting := make(chan error)
	go func() {
		_, err := m.Accept()
		waiting <- err
	}()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	if err := <-waiting; !errors.Is(err, net.ErrClosed) {
		t.Errorf("accept after the end: %v", err)
	}
	for _, l := range all {
		if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
			conn.Close()
			t.Errorf("%s still listens", l.Addr())
		}
	}
}
