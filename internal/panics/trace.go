package panics

import (
	"runtime"
	"strconv"
	"strings"
)

// trace returns the stack of the panic that is being recovered, from the line that panicked on, and that line.
func trace() (stack, where string) {
	var pcs [128]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	var all, behind strings.Builder // behind: what lies below the panic
	panicked := false
	for {
		frame, more := frames.Next()
		if frame.Function != "" {
			line := frame.Function + "\n\t" + frame.File + ":" + strconv.Itoa(frame.Line) + "\n"
			all.WriteString(line)
			switch {
			case frame.Function == "runtime.gopanic":
				panicked, where = true, ""
				behind.Reset()
			case panicked && where == "" && strings.HasPrefix(frame.Function, "runtime."): // panicIndex, sigpanic ...
			case panicked:
				if where == "" {
					where = frame.Function + ":" + strconv.Itoa(frame.Line)
				}
				behind.WriteString(line)
			}
		}
		if !more {
			break
		}
	}
	if where == "" {
		return cut(all.String(), maxStack), "unknown"
	}
	return cut(behind.String(), maxStack), where
}
