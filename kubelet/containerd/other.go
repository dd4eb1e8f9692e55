//go:build !linux

package containerd

import (
	"context"
	"errors"
	"syscall"
)

var errLinux = errors.New("containers need Linux")

func (c Config) machine() (machine, error)         { return machine{}, errLinux }
func ownSession() *syscall.SysProcAttr             { return nil }
func startTime(int) uint64                         { return 0 }
func bootID() string                               { return "" }
func (p *process) alive() bool                     { return false }
func (p *process) signal(syscall.Signal) error     { return errLinux }
func (p *process) wait(context.Context) error      { return errLinux }
func (d *Daemon) clearState(context.Context) error { return errLinux }

// Supported says why this process cannot run containers here.
func Supported() error { return errLinux }
