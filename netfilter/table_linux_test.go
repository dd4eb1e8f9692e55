package netfilter

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/sys/unix"

	"vigil/internal/nstest"
)

func TestReplaceTable(t *testing.T) {
	nstest.Need(t)
	nstest.NewNamespace(t).Do(t, func() {
		const name = "vigil-test-1"
		write := func(fill func(table *Table)) {
			t.Helper()
			table, err := ReplaceTable(name)
			if err != nil {
				t.Fatal(err)
			}
			fill(table)
			if err := table.Commit(); err != nil {
				t.Fatal(err)
			}
		}
		complete := func(want bool) {
			t.Helper()
			if got, err := IsComplete(name); err != nil || got != want {
				t.Errorf("the table is complete: %t, %v", got, err)
			}
		}
		if err := RemoveTable(name); err != nil {
			t.Errorf("there is no table yet: %v", err)
		}
		complete(false)
		for _, elements := range []int{500, 3} { // 500 are more than one message takes
			write(func(table *Table) {
				var ranges4, ranges6 []Range
				for i := range elements {
					ranges4 = append(ranges4, Range{netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 1}), netip.AddrFrom4([4]byte{10, byte(i >> 8), byte(i), 9})})
				}
				last := netip.MustParseAddr("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff") // nothing comes after it
				ranges6 = append(ranges6, Range{netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::1")}, Range{last, last})
				near4, err := table.Addresses("near4", true, ranges4)
				if err != nil {
					t.Fatal(err)
				}
				near6, err := table.Addresses("near6", false, ranges6)
				if err != nil {
					t.Fatal(err)
				}
				chain := table.Chain("near")
				table.Base("postrouting", Postrouting).Rule(NotToLink("lo"), Jump(chain))
				chain.Rule(InSet(Destination, near4), Return())
				chain.Rule(InSet(Destination, near6), Return())
			})
			complete(true)
			if got := countElements(t, name, "near4"); got != 2*elements { // the ends of ranges are elements, too
				t.Errorf("set near4 has %d elements, not %d", got, 2*elements)
			}
		}
		write(func(table *Table) { table.Base("postrouting", Postrouting) })
		complete(false)
		if got, err := Tables("vigil-test-"); err != nil || !slices.Equal(got, []string{name}) {
			t.Errorf("tables %v, %v", got, err)
		}
		if err := RemoveTable(name); err != nil {
			t.Error(err)
		}
		if got, err := Tables(""); err != nil || len(got) > 0 {
			t.Errorf("tables %v, %v are left", got, err)
		}
	})
}

// countElements counts the elements that the kernel has of a set.
func countElements(t *testing.T, table, set string) int {
	t.Helper()
	c, err := open()
	if err != nil {
		t.Fatal(err)
	}
	tables, err := c.ListTables()
	if err != nil {
		t.Fatal(err)
	}
	for _, each := range tables {
		if each.Name != table {
			continue
		}
		found, err := c.GetSetByName(each, set)
		if err != nil {
			t.Fatal(err)
		}
		elements, err := c.GetSetElements(found)
		if err != nil {
			t.Fatal(err)
		}
		return len(elements)
	}
	t.Fatalf("there is no table %s", table)
	return 0
}

// Rules lead packets of this machine to another port, and leave those of other ports and addresses alone.
func TestRule_Translates(t *testing.T) {
	nstest.Need(t)
	nstest.NewNamespace(t).Do(t, func() {
		for _, host := range []string{"127.0.0.1", "::1"} {
			listener, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			to := listener.Addr().(*net.TCPAddr).AddrPort()
			port := to.Port()%60000 + 1
			table, err := ReplaceTable("vigil-test-2")
			if err != nil {
				t.Fatal(err)
			}
			from := netip.PrefixFrom(to.Addr(), to.Addr().BitLen())
			table.Base("output", Output).Rule(AddressIn(Destination, from), ToThisMachine(), ToPort(unix.IPPROTO_TCP, port), TranslateTo(to))
			if err := table.Commit(); err != nil {
				t.Fatal(err)
			}
			if conn, err := net.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(port))); err != nil {
				t.Errorf("port %d of %s does not lead to %s: %v", port, host, to, err)
			} else {
				conn.Close()
			}
			if conn, err := net.Dial("tcp", net.JoinHostPort(host, fmt.Sprint(port+1))); err == nil && port+1 != to.Port() {
				conn.Close()
				t.Errorf("port %d of %s leads somewhere", port+1, host)
			}
			if err := RemoveTable("vigil-test-2"); err != nil {
				t.Error(err)
			}
		}
	})
}
