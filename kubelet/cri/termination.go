package cri

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/logs"
)

// Bounds of termination messages, upstream's: of what a container wrote, and of what is taken from its log instead.
const (
	messageLimit    = 4096 // bytes
	messageLogLimit = 2048 // bytes
	messageLogLines = 80
)

// terminationMessage is what a container that has ended has to say: the file it wrote, or the end of its log when it failed, wrote
// none, and wants it so.
func (r *Runtime) terminationMessage(s *runtimeapi.ContainerStatus) string {
	var message string
	if path := s.Annotations[messagePathAnnotation]; path != "" {
		for _, m := range s.Mounts {
			if m.ContainerPath != path {
				continue
			}
			var err error
			if message, err = readEnd(m.HostPath, messageLimit); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Sprintf("Error on reading termination log %s: %v", m.HostPath, err)
			}
			break
		}
	}
	fallBack := s.Annotations[messagePolicyAnnotation] == string(corev1.TerminationMessageFallbackToLogsOnError) && s.ExitCode != 0
	if message == "" && fallBack {
		return r.endOfLog(s.LogPath)
	}
	return message
}

// readEnd reads the last bytes of a file.
func readEnd(path string, limit int64) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer func() { _ = file.Close() }() // it was only read
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	size := info.Size()
	data, err := io.ReadAll(io.NewSectionReader(file, max(0, size-limit), min(size, limit)))
	return string(data), err
}

func (r *Runtime) endOfLog(path string) string {
	lines := int64(messageLogLines)
	var end lastBytes
	options := &logs.LogOptions{TailLines: &lines}
	if err := logs.ReadLogs(context.Background(), path, "", options, nil, &end, &end); err != nil {
		return fmt.Sprintf("Error on reading termination message from logs: %v", err)
	}
	return end.String()
}

// lastBytes keeps the last messageLogLimit bytes of what is written to it.
type lastBytes struct{ bytes.Buffer }

func (l *lastBytes) Write(p []byte) (int, error) {
	_, _ = l.Buffer.Write(p) // never fails
	if over := l.Len() - messageLogLimit; over > 0 {
		l.Next(over)
	}
	return len(p), nil
}
