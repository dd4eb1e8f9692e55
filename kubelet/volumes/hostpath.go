package volumes

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	corev1 "k8s.io/api/core/v1"
)

// hostPath shows pods what is on the node. It makes nothing of its own.
type hostPath struct{}

func (hostPath) Name() string { return "kubernetes.io/host-path" }

func (hostPath) Supports(v *Volume) bool {
	if v.PV != nil {
		return v.PV.Spec.HostPath != nil
	}
	return v.Spec.HostPath != nil
}

func (hostPath) SetUp(_ context.Context, v *Volume) (Mounted, error) {
	source := v.Spec.HostPath
	if v.PV != nil {
		source = v.PV.Spec.HostPath
	}
	mounted := Mounted{Path: source.Path}
	if v.Block {
		mounted = Mounted{Device: source.Path}
	}
	if source.Type == nil || *source.Type == corev1.HostPathUnset {
		return mounted, nil
	}
	return mounted, checkHostPath(source.Path, *source.Type)
}

func (hostPath) TearDown(context.Context, Place) error { return nil }

// hostPathTypes are what a type of hostPath must be.
var hostPathTypes = map[corev1.HostPathType]struct {
	must   corev1.HostPathType
	called string
	create func(path string) error // nil: it must be there
}{
	corev1.HostPathDirectoryOrCreate: {corev1.HostPathDirectory, "directory", func(path string) error { return os.MkdirAll(path, 0o755) }},
	corev1.HostPathDirectory:         {corev1.HostPathDirectory, "directory", nil},
	corev1.HostPathFileOrCreate:      {corev1.HostPathFile, "file", createFile},
	corev1.HostPathFile:              {corev1.HostPathFile, "file", nil},
	corev1.HostPathSocket:            {corev1.HostPathSocket, "socket file", nil},
	corev1.HostPathCharDev:           {corev1.HostPathCharDev, "character device", nil},
	corev1.HostPathBlockDev:          {corev1.HostPathBlockDev, "block device", nil},
}

// checkHostPath fails, in upstream's words, when a path is not what its type says.
func checkHostPath(path string, kind corev1.HostPathType) error {
	want, ok := hostPathTypes[kind]
	if !ok {
		return fmt.Errorf("%s is an invalid volume type", kind)
	}
	info, err := os.Stat(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("hostPath %s doesn't exist", path)
	}
	if err != nil && want.create != nil {
		return want.create(path)
	}
	if err != nil {
		return fmt.Errorf("hostPath %s doesn't exist", path)
	}
	is, err := fileType(path, info)
	if err != nil {
		return fmt.Errorf("hostPath type check failed, %s is not a %s, unable to determine its type: %w", path, want.called, err)
	}
	if is != want.must {
		return fmt.Errorf("hostPath type check failed: %s is not a %s, it's a %s", path, want.called, is)
	}
	return nil
}

func fileType(path string, info fs.FileInfo) (corev1.HostPathType, error) {
	switch mode := info.Mode(); {
	case mode.IsDir():
		return corev1.HostPathDirectory, nil
	case mode.IsRegular():
		return corev1.HostPathFile, nil
	case mode&os.ModeSocket != 0:
		return corev1.HostPathSocket, nil
	case mode&os.ModeCharDevice != 0:
		return corev1.HostPathCharDev, nil
	case mode&os.ModeDevice != 0:
		return corev1.HostPathBlockDev, nil
	}
	return "", fmt.Errorf("only recognise file, directory, socket, block device and character device")
}

func createFile(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|syscall.O_NONBLOCK, 0o644) // others may have made a FIFO of that name just now
	if err != nil {
		return err
	}
	return f.Close()
}
