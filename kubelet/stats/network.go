package stats

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"strconv"
	"strings"
)

// sandboxNetwork reads the counters of a pod's network, as any process in it sees them.
func (p *Provider) sandboxNetwork(group, sandbox string, containers []containerSample) []networkInterface {
	groups := []string{path.Join(group, sandbox), path.Join(group, "crio-"+sandbox)}
	for _, c := range containers {
		groups = append(groups, c.group)
	}
	for _, group := range groups {
		if group == "" {
			continue
		}
		pids, err := p.config.Groups.Processes(group)
		if err != nil || len(pids) == 0 {
			continue
		}
		if found := readNetwork("/proc/" + strconv.Itoa(pids[0]) + "/net/dev"); found != nil {
			return found
		}
	}
	return nil
}

// networkLimit is how much of a table of interfaces is read, in bytes, which is some 500 of them: a pod that may configure its network could make
// any number.
const networkLimit = 64 << 10

// readNetwork reads a table as proc(5) describes /proc/net/dev; without the loopback and the host's ends of the pods' links.
func readNetwork(file string) []networkInterface {
	table, err := os.Open(file)
	if err != nil {
		return nil
	}
	content, err := io.ReadAll(io.LimitReader(table, networkLimit))
	if err := errors.Join(err, table.Close()); err != nil {
		return nil
	}
	var found []networkInterface
	for line := range bytes.Lines(content) {
		name, counters, ok := strings.Cut(string(line), ":")
		name = strings.TrimSpace(name)
		if !ok || name == "lo" || strings.HasPrefix(name, "veth") {
			continue
		}
		fields := strings.Fields(counters)
		if len(fields) < 12 {
			continue
		}
		number := func(i int) uint64 {
			n, _ := strconv.ParseUint(fields[i], 10, 64) // the kernel writes numbers
			return n
		}
		found = append(found, networkInterface{
			name:    name,
			rxBytes: number(0), rxPackets: number(1), rxErrors: number(2), rxDropped: number(3),
			txBytes: number(8), txPackets: number(9), txErrors: number(10), txDropped: number(11),
		})
	}
	return found
}
