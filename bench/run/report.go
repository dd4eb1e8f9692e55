package main

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// report prints the tables of out/results.jsonl; those of a whole full run also become RESULTS.md.
func (e *environment) report(whole bool) error {
	all, err := readResults(filepath.Join(e.out, "results.jsonl"))
	if err != nil {
		return err
	}
	var up, vi figures
	var noise []float64
	for _, r := range all {
		switch r.text("server") {
		case peer:
			up = append(up, r)
		case vigil:
			vi = append(vi, r)
		}
		if v, ok := r.number("other_cores"); ok {
			noise = append(noise, v)
		}
	}
	z := e.sizes()
	var text bytes.Buffer
	met, missed := table(&text, rows(z), up, vi)
	fmt.Fprintln(&text)
	growth(&text, scaling(z), up, vi)
	var failures []string
	for _, r := range all {
		if m := r.text("error"); m != "" {
			failures = append(failures, fmt.Sprintf("* %s, %s: %s", r.text("group"), r.text("server"), m))
		}
	}
	slices.Sort(noise)
	quiet := "nothing measured"
	if len(noise) > 0 {
		quiet = fmt.Sprintf("median %.2f, worst %.2f", noise[len(noise)/2], noise[len(noise)-1])
	}
	summary := fmt.Sprintf("%d targets met, %d missed. Cores taken by other work on the machine meanwhile: %s of %d.", met, missed, quiet, runtime.NumCPU())
	if len(failures) > 0 {
		summary += "\n\nFailed:\n\n" + strings.Join(failures, "\n")
	}
	fmt.Println()
	fmt.Print(text.String())
	fmt.Println()
	fmt.Println(summary)
	if !whole || e.quick {
		return nil
	}
	return os.WriteFile(filepath.Join(e.root, "RESULTS.md"), fmt.Appendf(nil, resultsDocument, time.Now().Format(time.DateOnly), machine(), text.String(), summary), 0o644)
}

const resultsDocument = `# Vigil beside upstream

Made by ` + "`make bench`" + ` on %s, %s. Both servers, etcd and the load generator share the machine; CPU is that of the server alone.
Upstream is k8s.io/apiserver v0.37.2 without the validation and defaulting that Vigil does. What is measured, and how: [README.md](README.md).

%s
%s
`

func machine() string {
	model := "unknown processor"
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				model = strings.TrimSpace(v)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores (%s), %s", runtime.NumCPU(), model, runtime.Version())
}

// table writes the rows that have figures and counts those that are judged.
func table(w *bytes.Buffer, rows []row, up, vi figures) (met, missed int) {
	cells := [][]string{{"scenario", "", "upstream", "Vigil", "ratio", "target", ""}}
	for _, r := range rows {
		u, hasUp := r.value(up)
		v, hasVi := r.value(vi)
		if !hasUp && !hasVi {
			continue
		}
		line := []string{r.name, r.unit, "-", "-", "-", "", ""}
		if hasUp {
			line[2] = number(u)
		}
		if hasVi {
			line[3] = number(v)
		}
		ratio := math.NaN()
		if hasUp && hasVi {
			ratio = u / v
			if r.promise == more || r.promise == atLeast || strings.HasSuffix(r.unit, "/s") {
				ratio = v / u
			}
			if !math.IsNaN(ratio) && !math.IsInf(ratio, 0) && ratio >= 0 && r.unit != "%" && r.unit != "watchers" && r.unit != "clients" && r.unit != "x" {
				line[4] = number(ratio) + "x"
			}
		}
		good, judged := false, hasVi
		switch r.promise {
		case shown:
			judged = false
		case less, more:
			line[5] = fmt.Sprintf(">= %gx", r.target)
			judged = hasUp && hasVi
			good = ratio >= r.target || v == 0 && u > 0
		case atMost:
			line[5] = fmt.Sprintf("<= %s", number(r.target))
			good = v <= r.target
		case atLeast:
			line[5] = fmt.Sprintf(">= %s", number(r.target))
			good = v >= r.target
		}
		switch {
		case judged && good:
			line[6] = "met"
			met++
		case judged:
			line[6] = "**missed**"
			missed++
		}
		cells = append(cells, line)
	}
	markdown(w, cells)
	return met, missed
}

// growth writes how costs grow, for both servers.
func growth(w *bytes.Buffer, all []series, up, vi figures) {
	cells := [][]string{{"how it grows", "", "at", "upstream", "Vigil", "should grow"}}
	for _, s := range all {
		var at, u, v []string
		any := false
		for _, p := range s.points {
			cell := func(f figures) string {
				x, ok := p.value(f)
				if !ok {
					return "-"
				}
				any = true
				return number(x)
			}
			at, u, v = append(at, p.at), append(u, cell(up)), append(v, cell(vi))
		}
		if any {
			cells = append(cells, []string{s.name, s.unit, strings.Join(at, " / "), strings.Join(u, " / "), strings.Join(v, " / "), s.design})
		}
	}
	if len(cells) > 1 {
		markdown(w, cells)
	}
}

// number prints three significant digits.
func number(x float64) string {
	switch a := math.Abs(x); {
	case a >= 100 || x == math.Trunc(x):
		return fmt.Sprintf("%.0f", x)
	case a >= 10:
		return fmt.Sprintf("%.1f", x)
	case a >= 1:
		return fmt.Sprintf("%.2f", x)
	default:
		return fmt.Sprintf("%.3g", x)
	}
}

// markdown writes an aligned table.
func markdown(w *bytes.Buffer, cells [][]string) {
	width := make([]int, len(cells[0]))
	for _, line := range cells {
		for i, c := range line {
			width[i] = max(width[i], len(c))
		}
	}
	for n, line := range cells {
		for i, c := range line {
			fmt.Fprintf(w, "| %-*s ", width[i], c)
		}
		fmt.Fprintln(w, "|")
		if n == 0 {
			for i := range line {
				fmt.Fprintf(w, "|%s", strings.Repeat("-", width[i]+2))
			}
			fmt.Fprintln(w, "|")
		}
	}
}
