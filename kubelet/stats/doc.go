// Package stats measures what a node, its pods and their containers use: CPU, memory, processes, network, disk.
//
// One Provider measures for everybody: the summary (/stats/summary), Prometheus (/metrics/resource, /metrics/cadvisor), the eviction
// manager and, through them, the metrics API. A round of measuring reads some twenty small files for each pod and asks the runtime twice;
// whoever comes within the period of 10 s gets the figures of the last round. What is on disk (volumes, logs, writable layers) is
// counted file by file and therefore once a minute, beside.
//
//	cgroup files -> cpu, memory, processes of pods and containers, usageNanoCores from two rounds
//	/proc/PID/net/dev of a process of the sandbox -> network
//	statfs -> file systems;  walking -> volumes and logs;  the runtime -> writable layers, images
//
// Where a container has no cgroup below its pod's under its own ID (a runtime may do as it likes), the runtime is asked.
//
// Start reading at provider.go; sample.go is what a round finds, the other files are forms of it.
package stats
