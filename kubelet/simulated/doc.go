// Package simulated is a container runtime without containers: it says that they run. The kubelet above it is the real
// one, so thousands of nodes in one process exercise the same code as one real node does.
//
// A simulated container runs until it is stopped, unless its command or an annotation of its pod says when it ends:
//
//   - the commands true, false, "sleep N" and "exit N" (also behind sh -c) do what they say;
//   - simulated.vigil.dev/run-for: "5s" ends every container of the pod but its init containers after that time;
//   - simulated.vigil.dev/exit-code: "3" is what they then exit with (0 without it);
//   - an init container (no sidecar) whose command says nothing about it ends at once, successfully;
//   - an image whose name ends in "/does-not-exist" cannot be pulled.
//
// Probes are not executed: a running container is ready.
package simulated
