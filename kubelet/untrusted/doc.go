// Package untrusted opens, measures and removes files and directories that a container may have written, or may be writing.
//
// A container chooses what it leaves in its volumes, in /etc/hosts and at its termination message path: a sparse file of ten terabytes, a
// FIFO that no process writes to, a device, a link to the host's files, a tree of a million directories, each in the last. The kubelet runs
// as root and serves every pod of the node, so every access goes through this package, which promises:
//
//   - Opening never waits, and finds regular files only: [Open] and [OpenIn] fail with [ErrNotRegular] for anything else, links included.
//   - Nothing outside of the directory that the caller names is reached. The kernel checks that while it resolves the path (openat2).
//   - Reading is bounded by the caller: [Read] fails with [ErrTooLarge], [ReadEnd] returns the end alone.
//   - [Walk], [Measure] and [Remove] need a few dozen file descriptors and a little memory for a tree of any depth and any size. They use names
//     in open directories and no paths, so that a file whose path is longer than the kernel takes is not out of reach. They stay on
//     the file system they begin on, and end with their context.
//
// It does not promise that a read returns soon: a file system that hangs (NFS without its server) holds up whoever reads from it. [Within]
// gives up on such a read. It does not promise either that [Measure] sees a tree that a container rearranges meanwhile as it was at
// any one moment.
//
// The test of this package looks for calls elsewhere in the kubelet that open files below the directories of pods without it.
package untrusted
