package cri

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"vigil/kubelet/internal/logfile"
	"vigil/kubelet/untrusted"
)

// Bounds of termination messages, upstream's: of what a container wrote, and of what is taken from its log instead.
const (
	messageLimit    = 4096 // bytes
	messageLogLimit = 2048 // bytes
	messageLogLines = 80
)

// messageTime bounds the reading of a termination message: the file may be on a volume whose server is gone.
const messageTime = 2 * time.Second

// terminationMessage is what a container that has ended has to say: the file it wrote, or the end of its log when it failed, wrote
// none, and wants it so. Both are read from what the container, or who shares a volume with it, may have put there: a FIFO or a file of any size.
func (r *Runtime) terminationMessage(s *runtimeapi.ContainerStatus) string {
	var file string
	if path := s.Annotations[messagePathAnnotation]; path != "" {
		for _, m := range s.Mounts {
			if m.ContainerPath == path {
				file = m.HostPath
				break
			}
		}
	}
	var message []byte
	if file != "" {
		var err error
		message, err = untrusted.Within(messageTime, func() ([]byte, error) { return untrusted.ReadEnd(file, messageLimit) })
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Sprintf("Error on reading termination log %s: %v", file, err)
		}
	}
	fallBack := s.Annotations[messagePolicyAnnotation] == string(corev1.TerminationMessageFallbackToLogsOnError) && s.ExitCode != 0
	if len(message) == 0 && fallBack {
		return endOfLog(s.LogPath)
	}
	return strings.ToValidUTF8(string(message), "\uFFFD")
}

func endOfLog(path string) string {
	end, err := untrusted.Within(messageTime, func() (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), messageTime)
		defer cancel()
		var end lastBytes
		err := logfile.Copy(ctx, &end, path, logfile.Options{Tail: messageLogLines, Stdout: true, Stderr: true})
		return string(end), err
	})
	if err != nil {
		return fmt.Sprintf("Error on reading termination message from logs: %v", err)
	}
	return strings.ToValidUTF8(end, "\uFFFD")
}

// lastBytes keeps the last messageLogLimit bytes of what is written to it.
type lastBytes []byte

func (l *lastBytes) Write(p []byte) (int, error) {
	*l = append(*l, p[max(0, len(p)-messageLogLimit):]...)
	*l = append((*l)[:0], (*l)[max(0, len(*l)-messageLogLimit):]...)
	return len(p), nil
}
