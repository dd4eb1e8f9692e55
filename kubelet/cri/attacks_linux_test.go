package cri

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/internal/attacktest"
	"vigil/kubelet"
)

// This file is a list of what containers may leave for the kubelet, each with what it costs.

func sparse(file string) error {
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}
	return os.Truncate(file, 10<<40)
}

// TestAttack_TerminationMessage: what is mounted at the path of the message, or is in the place of the log, may be anything. It is not read by who
// reads the runtime's events.
func TestAttack_TerminationMessage(t *testing.T) {
	mkfifo := func(file string) error { return syscall.Mkfifo(file, 0o600) }
	const noMessage, noLog = "Error on reading termination log ", "Error on reading termination message from logs: "
	for _, tc := range []struct {
		name      string
		file, log func(string) error // nil: an empty file
		begins    string
	}{
		{"a FIFO", mkfifo, nil, noMessage},
		{"a device", func(file string) error { return syscall.Mknod(file, syscall.S_IFCHR|0o600, 1<<8|5) }, nil, noMessage},
		{"a directory", func(file string) error { return os.Mkdir(file, 0o700) }, nil, noMessage},
		{"a link", func(file string) error { return os.Symlink("/etc/passwd", file) }, nil, noMessage},
		{"10 TB with holes", sparse, nil, "\x00\x00"},
		{"no text", func(file string) error { return os.WriteFile(file, []byte("\xff\xfe bytes"), 0o600) }, nil, "\uFFFD bytes"},
		{"the log is a FIFO", nil, mkfifo, noLog},
		{"the log is 10 TB with holes", nil, sparse, noLog},
		{"the log is a link", nil, func(file string) error { return os.Symlink("/etc/passwd", file) }, noLog},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f, r := startFake(t)
			f.set("1", running)
			if _, err := r.relist(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.set("1", exited)
			c := f.containers["c1"]
			file, log := filepath.Join(t.TempDir(), "message"), filepath.Join(t.TempDir(), "0.log")
			for path, fill := range map[string]func(string) error{file: tc.file, log: tc.log} {
				if fill == nil {
					fill = func(file string) error { return os.WriteFile(file, nil, 0o600) }
				}
				err := fill(path)
				if tc.name == "a device" && errors.Is(err, syscall.EPERM) {
					t.Log("devices cannot be made here")
					return
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			c.ExitCode, c.LogPath = 1, log
			c.Mounts = []*runtimeapi.Mount{{ContainerPath: "/dev/termination-log", HostPath: file}}
			c.Annotations = map[string]string{
				messagePathAnnotation: "/dev/termination-log", messagePolicyAnnotation: string(corev1.TerminationMessageFallbackToLogsOnError),
			}
			attacktest.Budget{Memory: 8 << 20, CPU: 2 * time.Second}.Spend(t, func() {
				var end func()
				r.take("fake://", &runtimeapi.ContainerEventResponse{
					ContainerId: "c1", ContainerEventType: runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT, PodSandboxStatus: f.sandboxes["s1"],
					ContainersStatuses: []*runtimeapi.ContainerStatus{c},
				}, func(uid types.UID, sandbox string, c *runtimeapi.ContainerStatus) {
					end = func() { r.cache.mergeContainer(uid, r.toContainer("fake://", sandbox, c), false) }
				})
				if end == nil {
					t.Fatal("the end of the container was not left to others")
				}
				end()
				_, containers, err := r.Pod(t.Context(), "1")
				if err != nil || containers[0].State != kubelet.ContainerExited {
					t.Fatalf("%+v, %v", containers, err)
				}
				if got := containers[0].Message; !strings.HasPrefix(got, tc.begins) || len(got) > messageLimit || !utf8.ValidString(got) {
					t.Errorf("the message has %d bytes and begins with %.80q", len(got), got)
				}
			})
		})
	}
}

// TestAttack_Rotation: a pod that may write to the directory of logs leads the kubelet neither to the node's files nor to endless work.
func TestAttack_Rotation(t *testing.T) {
	dir := t.TempDir()
	secret, old := filepath.Join(dir, "secret"), filepath.Join(dir, "0.log.20200101-000000")
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(secret, "of the node")
	for _, tc := range []struct {
		name  string
		make  func() error
		fails bool
	}{
		{"what was put aside is a link", func() error { return os.Symlink(secret, old) }, true},
		{"what was put aside is a FIFO", func() error { return syscall.Mkfifo(old, 0o600) }, true},
		{"what was put aside is 10 TB with holes", func() error { return sparse(old) }, false},
		{"there is a link where it is written", func() error {
			write(old, "said")
			return os.Symlink(secret, old+".tmp")
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.make(); err != nil {
				t.Fatal(err)
			}
			attacktest.Budget{Memory: 4 << 20, CPU: time.Second}.Spend(t, func() {
				if err := compress(t.Context(), old, 160<<20); (err != nil) != tc.fails {
					t.Errorf("compressed: %v", err)
				}
			})
			if _, err := os.Lstat(old + ".gz"); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("there is something compressed: %v", err)
			}
			if got, err := os.ReadFile(secret); err != nil || string(got) != "of the node" {
				t.Errorf("the node's file is %q, %v", got, err)
			}
			_ = os.Remove(old)
			_ = os.Remove(old + ".tmp")
		})
	}
}

// TestAttack_ExecOutput: of a command that prints 16 MiB to each output the kubelet keeps what it shows.
func TestAttack_ExecOutput(t *testing.T) {
	answer, err := (execCodec{}).Marshal(&runtimeapi.ExecSyncResponse{Stdout: make([]byte, 16<<20), Stderr: make([]byte, 16<<20), ExitCode: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Free()
	attacktest.Budget{Memory: 1 << 20, CPU: time.Second}.Spend(t, func() {
		var got runtimeapi.ExecSyncResponse
		if err := (execCodec{limit: 1000}).Unmarshal(answer, &got); err != nil || len(got.Stdout) != 1000 || len(got.Stderr) != 1000 || got.ExitCode != 7 {
			t.Errorf("%d and %d bytes, code %d, %v", len(got.Stdout), len(got.Stderr), got.ExitCode, err)
		}
	})
}

// FuzzExecCodec compares with the usual decoding.
func FuzzExecCodec(f *testing.F) {
	for _, seed := range []*runtimeapi.ExecSyncResponse{{}, {Stdout: []byte("out"), Stderr: []byte("error"), ExitCode: -1}, {Stderr: []byte("x")}} {
		data, err := proto.Marshal(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(append(data, 0x22, 1, 'x', 0x2d, 1, 2, 3, 4, 0x31, 1, 2, 3, 4, 5, 6, 7, 8))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var want, got runtimeapi.ExecSyncResponse
		fails := proto.Unmarshal(data, &want)
		err := (execCodec{limit: 2}).Unmarshal(mem.BufferSlice{mem.SliceBuffer(data)}, &got)
		if fails != nil || err != nil && strings.Contains(err.Error(), "of unknown kind") {
			return // what is wrong in fields that are skipped is not noticed; groups are not known
		}
		if err != nil || string(got.Stdout) != string(want.Stdout[:min(2, len(want.Stdout))]) || string(got.Stderr) != string(want.Stderr[:min(2, len(want.Stderr))]) || got.ExitCode != want.ExitCode {
			t.Errorf("%x: %+v, %v, want %+v", data, &got, err, &want)
		}
	})
}
