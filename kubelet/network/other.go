//go:build !linux

package network

import (
	"errors"
	"net"
)

var errNotLinux = errors.New("pod networks need Linux")

func look(peer) (local, error)                      { return local{}, errNotLinux }
func ensureBridge(names, peer, int) error           { return errNotLinux }
func ensureSysctls(string, peer) error              { return errNotLinux }
func applyPlan(names, peer, local, int, plan) error { return errNotLinux }
func writeRules(string, rules) error                { return errNotLinux }
func writePorts(string, []hostPort) error           { return errNotLinux }
func forgetDatagrams([]hostPort) error              { return errNotLinux }

// Remove does nothing: there is nothing here.
func Remove(string) error { return nil }

// Left lists nothing.
func Left(string) ([]string, error) { return nil, nil }

// Ensure fails: there are no namespaces here.
func (s *Segment) Ensure() error { return errNotLinux }

// Join fails: there are no namespaces here.
func (s *Segment) Join(int, string) (string, error) { return "", errNotLinux }

// InNamespace fails: there are no namespaces here.
func InNamespace(string, func() error) error { return errNotLinux }

// Listen fails: there are no namespaces here.
func Listen(string, string) (net.Listener, error) { return nil, errNotLinux }

// Leave does nothing: there are no namespaces here.
func (s *Segment) Leave(string) error { return nil }
