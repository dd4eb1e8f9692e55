package nstest

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

const (
	// BridgeName is the bridge in the tests' own namespace that joins further ones; BridgeAddress is its address.
	BridgeName = "nstest0"

	netnsVariable  = "VIGIL_NSTEST_NETNS"
	namespaceDir   = "/run/netns"
	linkInside     = "eth0"
	defaultGateway = "192.168.90.1"
)

// BridgeAddress is the address of the tests' own namespace on the bridge, and every further namespace's gateway.
var BridgeAddress = netip.MustParseAddr(defaultGateway)

// Namespace is a network namespace beside the tests' own.
type Namespace struct {
	Name    string
	Path    string     // a file that can be given to setns(2) and to `ip netns`
	Address netip.Addr // of its eth0; invalid: it has none

	number int
}

// made counts the namespaces of this process: their names and addresses never come back, so that no neighbour cache is wrong.
var made struct {
	sync.Mutex
	count int
}

// NewNamespace makes a network namespace: lo is up, eth0 has an address in 192.168.90.0/24, the other end of it is a port of BridgeName in the
// tests' own namespace, which is its default gateway. It is removed when the test ends. The test is skipped where there
// are no namespaces.
func NewNamespace(t testing.TB) *Namespace {
	t.Helper()
	Need(t)
	n := NewBareNamespace(t)
	made.Lock()
	defer made.Unlock()
	if n.number > 250 {
		t.Fatal("more than 250 namespaces in one process")
	}
	n.Address = netip.AddrFrom4([4]byte{192, 168, 90, byte(n.number + 1)})
	bridge, err := ensureBridge()
	if err != nil {
		t.Fatalf("bridge %s: %v", BridgeName, err)
	}
	if err := n.join(bridge); err != nil {
		t.Fatalf("join network namespace: %v", err)
	}
	return n
}

// NewBareNamespace makes a network namespace that is joined to nothing, as a pod's is before CNI.
func NewBareNamespace(t testing.TB) *Namespace {
	t.Helper()
	Need(t)
	made.Lock()
	defer made.Unlock()
	made.count++
	n := &Namespace{Name: fmt.Sprintf("ns%d", made.count), number: made.count}
	n.Path = filepath.Join(namespaceDir, n.Name)
	if err := makeNamespace(n.Path); err != nil {
		t.Fatalf("make network namespace: %v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(unix.Unmount(n.Path, unix.MNT_DETACH), os.Remove(n.Path)); err != nil {
			t.Errorf("remove network namespace: %v", err)
		}
	})
	return n
}

func ensureBridge() (netlink.Link, error) {
	link, err := netlink.LinkByName(BridgeName)
	if err == nil {
		return link, nil
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs()}
	bridge.Name = BridgeName
	if err := netlink.LinkAdd(bridge); err != nil {
		return nil, err
	}
	if link, err = netlink.LinkByName(BridgeName); err != nil {
		return nil, err
	}
	if err := netlink.AddrAdd(link, &netlink.Addr{IPNet: subnet(BridgeAddress)}); err != nil {
		return nil, err
	}
	return link, netlink.LinkSetUp(link)
}

func subnet(a netip.Addr) *net.IPNet {
	return &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(24, 32)}
}

// makeNamespace makes a network namespace that lives as long as something is mounted on path.
func makeNamespace(path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	return onOtherThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		if err := upLoopback(); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	})
}

func upLoopback() error {
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// onOtherThread runs do on a thread that ends with it, because of what it does to itself.
func onOtherThread(do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		result <- do()
	}()
	return <-result
}

func (n *Namespace) join(bridge netlink.Link) error {
	handle, err := netns.GetFromPath(n.Path)
	if err != nil {
		return err
	}
	defer handle.Close()
	attributes := netlink.NewLinkAttrs()
	attributes.Name, attributes.MasterIndex = "ve"+n.Name, bridge.Attrs().Index
	pair := &netlink.Veth{LinkAttrs: attributes, PeerName: linkInside, PeerNamespace: netlink.NsFd(handle)}
	if err := netlink.LinkAdd(pair); err != nil {
		return fmt.Errorf("add veth: %w", err)
	}
	if err := netlink.LinkSetUp(pair); err != nil {
		return fmt.Errorf("set %s up: %w", attributes.Name, err)
	}
	return n.do(func() error {
		inside, err := netlink.LinkByName(linkInside)
		if err != nil {
			return err
		}
		if err := netlink.AddrAdd(inside, &netlink.Addr{IPNet: subnet(n.Address)}); err != nil {
			return fmt.Errorf("add address: %w", err)
		}
		if err := netlink.LinkSetUp(inside); err != nil {
			return err
		}
		return netlink.RouteAdd(&netlink.Route{LinkIndex: inside.Attrs().Index, Gw: BridgeAddress.AsSlice()})
	})
}

// Do runs a function on a thread in the namespace: sockets and netlink handles that it opens itself, not in goroutines it
// starts, stay there.
func (n *Namespace) Do(t testing.TB, do func()) {
	t.Helper()
	if err := n.do(func() error { do(); return nil }); err != nil {
		t.Fatalf("enter network namespace %s: %v", n.Name, err)
	}
}

func (n *Namespace) do(do func() error) error {
	return onOtherThread(func() error {
		if err := setNamespace(n.Path); err != nil {
			return err
		}
		return do()
	})
}

func setNamespace(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", path, err)
	}
	defer unix.Close(fd)
	return unix.Setns(fd, unix.CLONE_NEWNET)
}

// Command is a program that is to run in the namespace, and in a mount namespace of its own in which /sys shows it. The process is the program's
// own: killing it kills the program.
func (n *Namespace) Command(name string, args ...string) *exec.Cmd {
	return commandIn(n.Path, name, args...)
}

// commandIn has this test binary run once more, enter the namespace and become the program.
func commandIn(path, name string, args ...string) *exec.Cmd {
	if found, err := exec.LookPath(name); err == nil {
		name = found
	}
	command := exec.Command("/proc/self/exe")
	command.Args = append([]string{name}, args...)
	command.Env = append(os.Environ(), roleVariable+"="+roleEnter, netnsVariable+"="+path, netnsVariable+"_PROGRAM="+name)
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

// runEnter becomes the program that commandIn was asked for. It returns only when it cannot.
func runEnter() int {
	runtime.LockOSThread()
	path, program := os.Getenv(netnsVariable), os.Getenv(netnsVariable+"_PROGRAM")
	err := func() error {
		if err := setNamespace(path); err != nil {
			return err
		}
		if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return err
		}
		if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
			return err
		}
		if err := remountSys(); err != nil {
			return err
		}
		for _, name := range []string{netnsVariable, netnsVariable + "_PROGRAM"} {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
		if err := os.Setenv(roleVariable, roleTest); err != nil { // it may be this very binary
			return err
		}
		return syscall.Exec(program, os.Args, os.Environ())
	}()
	fmt.Fprintf(os.Stderr, "nstest: run %s in %s: %v\n", program, path, err)
	return 127
}
