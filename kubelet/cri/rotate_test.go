package cri

import (
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"vigil/kubelet"
)

// A log that has grown is put aside while its container writes on; older ones are compressed, the oldest goes.
func TestRotateLog(t *testing.T) {
	n := startNode(t, func(c *Config) { c.LogMaxSize, c.LogMaxFiles = 1, 3 })
	pod := newPod("talks", []string{"sleep", "1000"})
	id := n.run(pod)[0]
	containers := n.await(pod.UID, "it runs", func(_ *kubelet.Sandbox, c []*kubelet.Container) bool {
		return stateOf(c, id).State == kubelet.ContainerRunning
	})
	log := containers[0].LogPath
	for _, old := range []string{".20200101-000000.gz", ".20210101-000000", ".20200601-000000.tmp"} {
		if err := os.WriteFile(log+old, []byte("said in "+old), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	say := func(what string) { // the container is quiet: its log is written here
		file, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteString(what); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := n.rotateLog(n.context(), containers[0]); err != nil {
		t.Fatal(err)
	}
	if files := logFiles(t, log); len(files) != 4 {
		t.Errorf("a log without anything was rotated: %v", files)
	}
	say("something")
	if err := n.rotateLog(n.context(), containers[0]); err != nil {
		t.Fatal(err)
	}
	files := logFiles(t, log)
	if len(files) != 3 || files[0] != "0.log" || files[1] != "0.log.20210101-000000.gz" {
		t.Fatalf("there are %v", files)
	}
	if info, err := os.Stat(log); err != nil || info.Size() != 0 {
		t.Errorf("the new log: %v, %v", info, err)
	}
	if aside, err := os.ReadFile(filepath.Join(filepath.Dir(log), files[2])); err != nil || string(aside) != "something" {
		t.Errorf("put aside: %q, %v", aside, err)
	}
	zipped, err := os.Open(filepath.Join(filepath.Dir(log), files[1]))
	if err != nil {
		t.Fatal(err)
	}
	defer zipped.Close()
	reader, err := gzip.NewReader(zipped)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := io.ReadAll(reader); err != nil || string(content) != "said in .20210101-000000" {
		t.Errorf("compressed: %q, %v", content, err)
	}
	// A rotation that stopped half-way is completed.
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if err := n.rotateLog(n.context(), containers[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(log); err != nil {
		t.Error(err)
	}
}

func logFiles(t *testing.T, log string) []string {
	t.Helper()
	found, err := filepath.Glob(log + "*")
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i] = filepath.Base(found[i])
	}
	return found
}

// Collect leaves two attempts of each container, and nothing of pods that nobody wants.
func TestCollect(t *testing.T) {
	n := startNode(t, nil)
	wanted, unwanted := newPod("wanted", []string{"exit", "1"}), newPod("unwanted", []string{"exit", "1"})
	n.run(wanted)
	n.run(unwanted)
	c := &wanted.Spec.Containers[0]
	for attempt := range int32(3) {
		if _, err := n.start(wanted, c, attempt+1); err != nil {
			t.Fatal(err)
		}
	}
	n.await(wanted.UID, "four have ended", func(_ *kubelet.Sandbox, c []*kubelet.Container) bool {
		ended := 0
		for _, one := range c {
			if one.State == kubelet.ContainerExited {
				ended++
			}
		}
		return ended == 4
	})
	if err := n.StopSandbox(n.context(), unwanted.UID); err != nil {
		t.Fatal(err)
	}
	if err := n.Collect(n.context(), func(uid types.UID) bool { return uid == wanted.UID }); err != nil {
		t.Fatal(err)
	}
	_, containers, err := n.Pod(n.context(), wanted.UID)
	if err != nil || len(containers) != 2 || containers[0].Attempt != 3 || containers[1].Attempt != 2 {
		t.Errorf("left of the wanted pod: %+v, %v", deref(containers), err)
	}
	var logs []string
	for _, attempt := range []string{"0", "1", "2", "3"} {
		if _, err := os.Stat(filepath.Join(filepath.Dir(containers[0].LogPath), attempt+".log")); err == nil {
			logs = append(logs, attempt)
		}
	}
	if got := strings.Join(logs, " "); got != "2 3" {
		t.Errorf("logs left: %s", got)
	}
	pods, err := n.Pods(n.context())
	if err != nil || len(pods) != 1 || pods[0].UID != wanted.UID {
		t.Errorf("pods left: %v, %v", pods, err)
	}
	if dirs, err := os.ReadDir(n.config.LogDir); err != nil || len(dirs) != 1 {
		t.Errorf("log directories left: %v, %v", dirs, err)
	}
}
