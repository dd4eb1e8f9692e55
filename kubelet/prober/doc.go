// Package prober decides when containers are asked how they are, and what the answers mean: startup, readiness and liveness probes with their delays,
// periods and thresholds.
//
// It asks nobody itself: package probe does, over HTTP, TCP, gRPC and commands. It does not know containers either: the kubelet's workers tell it what runs
// (Look), get the Health of that, and are told when it changes. Counts of answers are metrics with upstream's names.
package prober
