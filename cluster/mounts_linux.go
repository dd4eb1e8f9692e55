package cluster

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mounted is a mount: where it is, and which directory of its file system is there.
type mounted struct{ point, root string }

func (m mounted) String() string { return m.point }

// mountsBelow lists what is mounted below a directory, the latest first (proc_pid_mountinfo(5)).
func mountsBelow(dir string) ([]mounted, error) {
	table, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var points []mounted
	for lines := bufio.NewScanner(bytes.NewReader(table)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) < 5 {
			continue
		}
		if point := unescape(fields[4]); strings.HasPrefix(point, dir+"/") {
			points = append(points, mounted{point, unescape(fields[3])})
		}
	}
	slices.Reverse(points)
	return points, nil
}

// unescape undoes what the kernel does to blanks and the like: \040.
func unescape(text string) string {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '\\' && i+3 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+4], 8, 8); err == nil {
				out.WriteByte(byte(code))
				i += 3
				continue
			}
		}
		out.WriteByte(text[i])
	}
	return out.String()
}

// unmount takes away what nodes have mounted: below the directories in a node's directory, and such a directory on itself. What else is
// mounted on those, or further up, somebody has put there for us to use.
func (c DownConfig) unmount(below string) error {
	points, err := mountsBelow(below)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range points {
		point := m.point
		within, err := filepath.Rel(c.nodesDir(), point)
		if err != nil || strings.Count(within, "/") < 2 && !strings.HasSuffix(m.root, "/nodes/"+within) { // NODE/kubelet
			continue
		}
		if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", point, err))
		}
	}
	return errors.Join(errs...)
}

// resultDir is where libcni keeps what plug-ins have answered, whatever one says.
const resultDir = "/var/lib/cni/results"

// forgetResults removes the results of plug-ins for pods of a data directory, which are known by the configuration in them.
func forgetResults(dataDir string) error {
	entries, err := os.ReadDir(resultDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var errs []error
	for _, entry := range entries {
		if !strings.HasPrefix(entry.Name(), "vigil-") {
			continue
		}
		path := filepath.Join(resultDir, entry.Name())
		text, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		var result struct {
			Config string `json:"config"`
		}
		if json.Unmarshal(text, &result) != nil {
			continue
		}
		if config, err := base64.StdEncoding.DecodeString(result.Config); err == nil && bytes.Contains(config, []byte(`"`+dataDir+"/")) {
			errs = append(errs, os.Remove(path))
		}
	}
	return errors.Join(errs...)
}
