package podoptions

import (
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func query(t *testing.T, raw string) url.Values {
	t.Helper()
	q, err := url.ParseQuery(raw)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestExec(t *testing.T) {
	got := Exec(query(t, "command=sh&command=-c&command=echo+a%26b&stdin&stdout=true&stderr=0&tty=FALSE&container=c"))
	want := &corev1.PodExecOptions{Command: []string{"sh", "-c", "echo a&b"}, Stdin: true, Stdout: true, Container: "c"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestPortForward(t *testing.T) {
	got, err := PortForward(query(t, "ports=80,8080&ports=9"))
	if err != nil || cmp.Diff([]int32{80, 8080, 9}, got.Ports) != "" {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := PortForward(query(t, "ports=http")); err == nil {
		t.Error("a name was taken for a port")
	}
}

func TestLog(t *testing.T) {
	got, err := Log(query(t, "follow=1&sinceTime=2026-01-02T03:04:05Z&limitBytes=5&stream=Stderr"))
	if err != nil {
		t.Fatal(err)
	}
	since := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	want := &corev1.PodLogOptions{Follow: true, SinceTime: &since, LimitBytes: new(int64(5)), Stream: new("Stderr")}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b metav1.Time) bool { return a.Equal(&b) })); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{"tailLines=x", "sinceSeconds=", "sinceTime=yesterday"} {
		if _, err := Log(query(t, bad)); err == nil {
			t.Errorf("%s was understood", bad)
		}
	}
}

func TestValidateLog(t *testing.T) {
	for raw, want := range map[string]string{
		"":                           "",
		"tailLines=0&sinceSeconds=1": "",
		"tailLines=-1":               "tailLines: Invalid value: -1: must be greater than or equal to 0",
		"limitBytes=0":               "limitBytes: Invalid value: 0: must be greater than 0",
		"sinceSeconds=0":             "sinceSeconds: Invalid value: 0: must be greater than 0",
		"stream=Stdin":               `stream: Unsupported value: "Stdin": supported values: "All", "Stderr", "Stdout"`,
		"stream=Stdout&tailLines=1":  "[]: Forbidden: `tailLines` and specific `stream` are mutually exclusive for now",
		"stream=Stdout":              "",
		"sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z": "[]: Forbidden: at most one of `sinceTime` or `sinceSeconds` may be specified",
	} {
		opts, err := Log(query(t, raw))
		if err != nil {
			t.Fatal(err)
		}
		got := ""
		if errs := ValidateLog(opts); len(errs) > 0 {
			got = errs.ToAggregate().Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", raw, got, want)
		}
	}
}
