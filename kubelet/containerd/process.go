package containerd

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
)

// process is a containerd that was started, as the file process.json has it.
type process struct {
	PID int `json:"pid"`
	// Start is when the process started, in the kernel's ticks since boot: a PID alone may have become another's.
	Start uint64 `json:"start"`
	Boot  string `json:"boot"` // the kernel's name for the time since it booted
	// Identity stands for programs and configuration: one that differs is not what would be started now.
	Identity string `json:"identity"`

	// What others need to reach it.
	BinDir      string `json:"binDir"`
	StateDir    string `json:"stateDir"`
	Snapshotter string `json:"snapshotter"`
}

// readProcess gives nil when there was none.
func readProcess(path string) (*process, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p process
	if err := json.Unmarshal(content, &p); err != nil || p.PID <= 1 {
		return nil, nil // written when the power went
	}
	return &p, nil
}

func (p *process) write(path string) error {
	content, err := json.Marshal(p)
	if err != nil {
		return err
	}
	return writeFile(path, string(content)+"\n", 0o644)
}

// writeFile replaces a file at once.
func writeFile(path, content string, mode os.FileMode) error {
	temp := path + ".new"
	if err := os.WriteFile(temp, []byte(content), mode); err != nil {
		return err
	}
	return os.Rename(temp, path)
}

// command is containerd in a session of its own, its output appended to the log.
func (c Config) command(log *os.File) *exec.Cmd {
	command := exec.Command(c.program("containerd"), "--config", c.configFile())
	command.Stdout, command.Stderr = log, log
	command.Dir = "/"
	command.Env = append(os.Environ(), "PATH="+c.BinDir+string(os.PathListSeparator)+os.Getenv("PATH")) // the shim looks for runc
	if os.Getenv("GOGC") == "" {
		command.Env = append(command.Env, "GOGC=50") // with 100 pods 66 MB instead of 85, and no slower
	}
	command.SysProcAttr = ownSession()
	return command
}

// identity of programs and configuration: sizes and times stand for the programs.
func (c Config) identity(toml string) (string, error) {
	text := toml
	for _, name := range []string{"containerd", "containerd-shim-runc-v2", "runc"} {
		info, err := os.Stat(c.program(name))
		if err != nil {
			return "", err
		}
		text += fmt.Sprintln(name, info.Size(), info.ModTime().UnixNano())
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:]), nil
}
