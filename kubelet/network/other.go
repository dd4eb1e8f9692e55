//go:build !linux

package network

import "errors"

var errNotLinux = errors.New("pod networks need Linux")

func look(peer) (local, error)                      { return local{}, errNotLinux }
func ensureBridge(names, peer, int) error           { return errNotLinux }
func ensureSysctls(string, peer) error              { return errNotLinux }
func applyPlan(names, peer, local, int, plan) error { return errNotLinux }
func writeRules(string, rules) error                { return errNotLinux }
func tableIsComplete(string) (bool, error)          { return false, errNotLinux }
func removeTable(string) error                      { return errNotLinux }
func writePorts(string, []hostPort) error           { return errNotLinux }
func forgetDatagrams([]hostPort) error              { return errNotLinux }

// Remove does nothing: there is nothing here.
func Remove(string) error { return nil }

// Left lists nothing.
func Left(string) ([]string, error) { return nil, nil }
