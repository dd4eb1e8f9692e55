package memory

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// dropProgram unmaps the pages of the program's own file that nobody has changed. Starting goes once through most of it, for a long
// initialisation of many packages; what is needed again comes back from the page cache, page by page.
func dropProgram() {
	program, err := os.Executable()
	if err != nil {
		return
	}
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range unchanged(maps, program) {
		// The pages are those of a file, mapped to be read: dropping them loses nothing.
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, m.from, m.to-m.from, syscall.MADV_DONTNEED)
	}
}

// mapping is a stretch of addresses.
type mapping struct{ from, to uintptr }

// unchanged finds in smaps (proc_pid_smaps(5)) the mappings of a file that cannot be written and have no page of their own. Relocated
// data, which is protected after it was written, has such pages, and would be lost.
func unchanged(smaps []byte, file string) (found []mapping) {
	var at *mapping
	for lines := bufio.NewScanner(bytes.NewReader(smaps)); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 2 && fields[0] == "Anonymous:":
			if at != nil && fields[1] == "0" {
				found = append(found, *at)
			}
			at = nil
		case len(fields) == 6 && fields[5] == file && strings.HasPrefix(fields[1], "r-"):
			from, to, _ := strings.Cut(fields[0], "-")
			first, err := strconv.ParseUint(from, 16, 64)
			end, err2 := strconv.ParseUint(to, 16, 64)
			if err == nil && err2 == nil {
				at = &mapping{uintptr(first), uintptr(end)}
			}
		case len(fields) > 0 && strings.Contains(fields[0], "-") && !strings.HasSuffix(fields[0], ":"):
			at = nil // the next mapping begins
		}
	}
	return found
}
