package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	peer  = "peer"
	vigil = "vigil"
)

// environment is where a run takes place and what was asked for.
type environment struct {
	root string // the bench folder
	out  string // binaries, results, logs
	ram  string // etcd's data

	quick      bool
	keep       bool     // results of earlier runs
	only       []string // scenarios; empty: all
	servers    []string
	vigil      string // binary
	vigilFlags []string
	nice       int
	profile    int // seconds, 0: none

	etcdPort, etcdPeerPort, port int

	begin   time.Time
	results *os.File
}

func newEnvironment() (*environment, error) {
	root, err := os.Getwd()
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(filepath.Join(root, "peer", "go.mod")); err != nil {
		return nil, fmt.Errorf("run it in the bench folder: %w", err)
	}
	e := &environment{
		begin: time.Now(),
		root:  root, out: filepath.Join(root, "out"),
		quick:      os.Getenv("QUICK") != "" && os.Getenv("QUICK") != "0",
		keep:       os.Getenv("KEEP") != "" && os.Getenv("KEEP") != "0",
		only:       strings.Fields(os.Getenv("SCENARIOS")),
		servers:    strings.Fields(os.Getenv("SERVERS")),
		vigil:      os.Getenv("VIGIL"),
		vigilFlags: strings.Fields(os.Getenv("VIGIL_FLAGS")),
	}
	if out := os.Getenv("OUT"); out != "" {
		if e.out, err = filepath.Abs(out); err != nil {
			return nil, err
		}
	}
	if len(e.servers) == 0 {
		e.servers = []string{peer, vigil}
	}
	for name, into := range map[string]*int{"NICE": &e.nice, "PROFILE": &e.profile, "ETCD_PORT": &e.etcdPort, "ETCD_PEER_PORT": &e.etcdPeerPort, "PORT": &e.port} {
		if v := os.Getenv(name); v != "" {
			if *into, err = strconv.Atoi(v); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	ram := os.Getenv("RAM")
	if ram == "" {
		ram = "/dev/shm"
		if _, err := os.Stat(ram); err != nil {
			ram = e.out
		}
	}
	e.ram = filepath.Join(ram, fmt.Sprintf("vigil-bench-%d", os.Getpid()))
	return e, os.MkdirAll(filepath.Join(e.out, "log"), 0o755)
}

// prepare makes certificates, ports, the results file and the pod that all populations are made of.
func (e *environment) prepare() error {
	for _, p := range []*int{&e.etcdPort, &e.etcdPeerPort, &e.port} {
		if *p == 0 {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			defer l.Close()
			*p = l.Addr().(*net.TCPAddr).Port
		}
	}
	if err := os.MkdirAll(e.ram, 0o755); err != nil {
		return err
	}
	if out, err := exec.Command(e.bin("load"), "pki", "--dir", e.pki(""), "--server", e.url()).CombinedOutput(); err != nil {
		return fmt.Errorf("certificates: %w: %s", err, out)
	}
	mode := os.O_TRUNC
	if e.keep {
		mode = os.O_APPEND
	}
	f, err := os.OpenFile(filepath.Join(e.out, "results.jsonl"), os.O_CREATE|os.O_WRONLY|mode, 0o644)
	if err != nil {
		return err
	}
	e.results = f
	return nil
}

func (e *environment) bin(name string) string { return filepath.Join(e.out, "bin", name) }
func (e *environment) pki(file string) string { return filepath.Join(e.out, "pki", file) }
func (e *environment) url() string            { return fmt.Sprintf("https://127.0.0.1:%d", e.port) }
func (e *environment) etcdURL() string        { return fmt.Sprintf("http://127.0.0.1:%d", e.etcdPort) }

func (e *environment) wanted(s scenario) bool {
	if len(e.only) > 0 {
		return slices.Contains(e.only, s.name)
	}
	return !e.quick || !s.long
}

func (e *environment) sizes() sizes {
	if e.quick {
		return quick
	}
	return full
}

func (e *environment) clean() { os.RemoveAll(e.ram) }

// result is one measurement: names of figures and what they were.
type result map[string]any

func (r result) number(figure string) (float64, bool) {
	v, ok := r[figure].(float64)
	return v, ok
}

func (r result) text(name string) string { s, _ := r[name].(string); return s }

func (e *environment) record(r result) {
	line, err := json.Marshal(r)
	if err == nil {
		_, err = e.results.Write(append(line, '\n'))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench: results:", err)
	}
}

func readResults(path string) ([]result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []result
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
	return all, lines.Err()
}

// ownSession gives this run a scheduling group of its own with the given
// niceness, so that what else the machine does disturbs it less. 0 changes
// nothing.
func ownSession(nice int) error {
	const marker = "VIGIL_BENCH_SESSION"
	if nice == 0 {
		return nil
	}
	if os.Getenv(marker) != "" {
		if err := os.WriteFile("/proc/self/autogroup", []byte(strconv.Itoa(nice)), 0); err != nil {
			fmt.Fprintln(os.Stderr, "bench: NICE:", err)
		}
		return nil
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), marker+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGTERM}
	err = cmd.Run()
	if _, ok := err.(*exec.ExitError); err == nil || ok {
		os.Exit(cmd.ProcessState.ExitCode())
	}
	return err
}
