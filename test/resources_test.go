package test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// What kubectl lists is what kube-apiserver 1.37 serves of groups at version 1 and above: names, short names, scopes,
// kinds, verbs, categories.
func TestKubectl_APIResources(t *testing.T) {
	p := startCluster(t)
	want, err := os.ReadFile("testdata/api-resources.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := func(text string) (lines []string) {
		for line := range strings.Lines(text) {
			lines = append(lines, strings.Join(strings.Fields(line), " "))
		}
		return lines
	}
	sorted := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := cmp.Diff(lines(string(want)), lines(p.Kubectl("api-resources", "-o", "wide")), sorted); diff != "" {
		t.Errorf("api-resources (-upstream +got):\n%s", diff)
	}

	// All that can be listed is printed without an error, and without a word about what there is none of.
	names := strings.Fields(p.Kubectl("api-resources", "--verbs=list", "-o", "name"))
	if len(names) < 50 {
		t.Errorf("listable: %v", names)
	}
	out := p.Kubectl("get", strings.Join(names, ","), "-A")
	for _, part := range []string{"namespace/kube-system", "service/kubernetes", "componentstatus/etcd-0", "priorityclass.scheduling.k8s.io/system-node-critical"} {
		if !strings.Contains(out, part) {
			t.Errorf("kubectl get of all kinds lacks %s:\n%s", part, out)
		}
	}
}
