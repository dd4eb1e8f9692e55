// Command run is `make bench`: it builds the upstream peer, etcd, the load
// generator and Vigil, runs every scenario against both servers one after the
// other, each from the same etcd data, and prints what each cost and whether
// Vigil keeps what it promises.
//
// Environment:
//
//	QUICK=1            smaller populations, about three minutes
//	SCENARIOS="a b"    only these (see plan.go)
//	KEEP=1             add to the results of the last run instead of beginning anew
//	SERVERS="vigil"    only one side
//	VIGIL=path         this binary instead of one built from ../cmd/vigil
//	VIGIL_FLAGS="..."  further flags for vigil apiserver
//	ETCD_PORT, ETCD_PEER_PORT, PORT   default: free ones
//	RAM=dir            where etcd's data lie, default /dev/shm (the disk is not what is compared)
//	NICE=-15           weight of the run against other work on the machine (autogroup; needs root)
//	PROFILE=15         seconds of CPU profile to take of each profiled step
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
)

func main() {
	// Children are killed when the thread that started them ends: that must be this one.
	runtime.LockOSThread()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	e, err := newEnvironment()
	if err != nil {
		return err
	}
	if len(os.Args) > 1 && os.Args[1] == "generate" { // so that vet and others can read the peer
		return e.generate(ctx)
	}
	if err := ownSession(e.nice); err != nil {
		return err
	}
	if len(os.Args) > 1 && os.Args[1] == "report" { // the tables again, from the figures of a run
		return e.report(true)
	}
	if err := e.build(ctx); err != nil {
		return err
	}
	defer e.clean()
	if err := e.prepare(); err != nil {
		return err
	}
	for _, s := range plan(e.sizes()) {
		if !e.wanted(s) {
			continue
		}
		rounds := max(s.rounds, 1)
		if e.quick {
			rounds = 1
		}
		for range rounds {
			for _, server := range e.servers {
				if err := e.runScenario(ctx, s, server); err != nil {
					if ctx.Err() != nil {
						return ctx.Err()
					}
					fmt.Fprintf(os.Stderr, "bench: %s, %s: %v\n", s.name, server, err)
					e.record(result{"server": server, "group": s.name, "error": err.Error()})
				}
			}
		}
	}
	return e.report(len(e.only) == 0 && len(e.servers) == 2)
}
