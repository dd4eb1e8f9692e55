// Command flood shows what priority and fairness is for: it has one user flood an API server with 2,000 lists at a time, and measures meanwhile
// how long node heartbeats, a kubelet's reads and the scheduler's binds take; with fairness on, and off.
//
//	go run ./flood -vigil ../bin/vigil
//
// It starts `vigil up` without nodes on free ports, fills it with ConfigMaps, and issues client certificates with the cluster's own CA. The
// flood comes from a process of its own, with lower weight than what is measured, over many connections, and does not wait when it is told to (429).
// What is measured are requests of client-go, which waits and asks again, until they succeed: waits count.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"time"
)

type settings struct {
	vigil      string
	lists      int
	configMaps int
	nodes      int
	length     time.Duration
	flags      string

	flooder, server string // of the flooding process
}

func main() {
	var s settings
	flag.StringVar(&s.vigil, "vigil", "../bin/vigil", "the binary to measure")
	flag.IntVar(&s.lists, "lists", 2000, "lists under way at any time")
	flag.IntVar(&s.configMaps, "configmaps", 1000, "ConfigMaps of 4 KB that each list shows")
	flag.IntVar(&s.nodes, "nodes", 20, "nodes with heartbeats")
	flag.DurationVar(&s.length, "length", 30*time.Second, "how long to flood")
	flag.StringVar(&s.flags, "flags", "", "further flags of vigil up, separated by spaces")
	flag.StringVar(&s.flooder, "flooder", "", "directory with the flooder's certificate: be the flooding process")
	flag.StringVar(&s.server, "server", "", "host and port of the flooded server")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if s.flooder != "" {
		if err := flood(ctx, s); err != nil && !errors.Is(err, context.Canceled) {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	for _, fair := range []bool{true, false} {
		if err := measure(ctx, s, fair); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
