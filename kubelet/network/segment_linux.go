package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"vigil/netfilter"
)

// Ensure makes the bridge and what lets the nodes reach other machines.
func (s *Segment) Ensure() error {
	link, err := netlink.LinkByName(s.bridge())
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		attributes := netlink.NewLinkAttrs()
		attributes.Name, attributes.HardwareAddr = s.bridge(), s.hardware(0).address()
		if err = netlink.LinkAdd(&netlink.Bridge{LinkAttrs: attributes}); err == nil {
			link, err = netlink.LinkByName(s.bridge())
		}
	}
	if err != nil {
		return fmt.Errorf("bridge %s: %w", s.bridge(), err)
	}
	err = errors.Join(ensureUp(link, s.alias("nodes")), ensureAddresses(link, []netip.Prefix{netip.PrefixFrom(s.Address(0), s.prefix.Bits())}))
	if err != nil {
		return fmt.Errorf("bridge %s: %w", s.bridge(), err)
	}
	return errors.Join(sysctl("ipv4/ip_forward", "1"), s.writeRules())
}

// hardware is fixed, so that neighbours need not learn it again after a restart.
func (s *Segment) hardware(i int) hardware {
	ip := s.Address(i).As4()
	h := hardware{0x02, 0x78}
	copy(h[2:], ip[:])
	return h
}

// writeRules lets packets of the nodes to elsewhere leave with the machine's address. Packets between nodes' pods pass the bridge and are none of these.
func (s *Segment) writeRules() error {
	table, err := netfilter.ReplaceTable(s.table())
	if err != nil {
		return err
	}
	post := table.Base("postrouting", netfilter.Postrouting)
	post.Rule(netfilter.AddressIn(netfilter.Source, s.prefix), netfilter.NotToLink(s.bridge()), netfilter.AddressNotIn(netfilter.Destination, s.prefix), netfilter.Masquerade())
	return table.Commit()
}

// Join makes the network namespace of the i-th node, from 1, with its link, or completes what is there of it, and returns its path.
func (s *Segment) Join(i int, node string) (string, error) {
	if err := s.check(i); err != nil {
		return "", err
	}
	path := s.Namespace(node)
	if err := ensureNamespace(path); err != nil {
		return "", fmt.Errorf("network namespace %s: %w", path, err)
	}
	if err := s.ensurePort(i, node, path); err != nil {
		return "", fmt.Errorf("join node %s to bridge %s: %w", node, s.bridge(), err)
	}
	return path, nil
}

// ensureNamespace makes a network namespace that lives as long as something is mounted on path.
func ensureNamespace(path string) error {
	var about unix.Statfs_t
	if err := unix.Statfs(path, &about); err == nil && about.Type == unix.NSFS_MAGIC {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		return err
	}
	return onOtherThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return err
		}
		return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
	})
}

func (s *Segment) ensurePort(i int, node, path string) error {
	bridge, err := netlink.LinkByName(s.bridge())
	if err != nil {
		return err
	}
	handle, err := netns.GetFromPath(path)
	if err != nil {
		return err
	}
	defer handle.Close()
	if err := s.removeLostPort(node, path); err != nil {
		return err
	}
	port, err := netlink.LinkByName(s.port(node))
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		attributes := netlink.NewLinkAttrs()
		attributes.Name, attributes.MasterIndex = s.port(node), bridge.Attrs().Index
		pair := &netlink.Veth{LinkAttrs: attributes, PeerName: "eth0", PeerHardwareAddr: s.hardware(i).address(), PeerNamespace: netlink.NsFd(handle)}
		if err = netlink.LinkAdd(pair); err == nil {
			port, err = netlink.LinkByName(s.port(node))
		}
	}
	if err != nil {
		return err
	}
	if err := ensureUp(port, s.alias(node)); err != nil {
		return err
	}
	return InNamespace(path, func() error {
		for _, name := range []string{"lo", "eth0"} {
			link, err := netlink.LinkByName(name)
			if err != nil {
				return err
			}
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
			if name != "eth0" {
				continue
			}
			if err := ensureAddresses(link, []netip.Prefix{netip.PrefixFrom(s.Address(i), s.prefix.Bits())}); err != nil {
				return err
			}
			return netlink.RouteReplace(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: s.Address(0).AsSlice()})
		}
		return nil
	})
}

// removeLostPort removes a node's link when its other end is not in the node's namespace: it is in a former one, which lives until the last process in
// it has ended and the kernel has cleared it away.
func (s *Segment) removeLostPort(node, path string) error {
	err := InNamespace(path, func() error {
		_, err := netlink.LinkByName("eth0")
		return err
	})
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return removeLink(s.port(node))
	}
	return err
}

// InNamespace runs do on a thread that is in a network namespace and ends with it. Sockets that do opens and processes that it starts
// stay there; goroutines that it starts do not run there.
func InNamespace(path string, do func() error) error {
	return onOtherThread(func() error {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("open network namespace %s: %w", path, err)
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter network namespace %s: %w", path, err)
		}
		return do()
	})
}

// Listen listens for TCP connections in a network namespace.
func Listen(path, address string) (net.Listener, error) {
	var listener net.Listener
	err := InNamespace(path, func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	return listener, err
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

// namespaces are the network namespaces of nodes that a data directory has.
func (s *Segment) namespaces() ([]string, error) {
	entries, err := os.ReadDir(namespaceDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), s.namespacePrefix()) {
			paths = append(paths, filepath.Join(namespaceDir, entry.Name()))
		}
	}
	return paths, nil
}

// removeNamespaces lets all network namespaces go.
func (s *Segment) removeNamespaces() error {
	paths, err := s.namespaces()
	errs := []error{err}
	for _, path := range paths {
		errs = append(errs, removeNamespace(path))
	}
	return errors.Join(errs...)
}

// removeNamespace lets a network namespace go: its links end when the last process in it does. That there is none is no error.
func removeNamespace(path string) error {
	for { // mounted twice, perhaps
		err := unix.Unmount(path, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, syscall.EINVAL) || errors.Is(err, syscall.ENOENT) {
			break
		}
		if err != nil {
			return fmt.Errorf("unmount %s: %w", path, err)
		}
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// Leave removes a node's network namespace and its link. Nothing must run in it.
func (s *Segment) Leave(node string) error {
	return errors.Join(removeLink(s.port(node)), removeNamespace(s.Namespace(node)))
}
