package env

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"vigil/internal/attacktest"
	"vigil/kubelet/internal/expand"
)

// This file is a list of attacks by those who write pods, and by their init containers, each with what it costs the kubelet.

// scratchPod is a pod with an emptyDir "scratch", and the directory that it is.
func scratchPod(t *testing.T) (maker *Maker, pod *corev1.Pod, scratch string) {
	t.Helper()
	root := t.TempDir()
	pod = &corev1.Pod{}
	pod.UID, pod.Spec.EnableServiceLinks = "u", new(false)
	pod.Spec.Volumes = []corev1.Volume{{Name: "scratch", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	scratch = filepath.Join(root, "pods/u/volumes/kubernetes.io~empty-dir/scratch")
	if err := os.MkdirAll(scratch, 0o755); err != nil {
		t.Fatal(err)
	}
	return &Maker{RootDir: root}, pod, scratch
}

// fromFile is a variable whose value is in the file "vars" of volume "scratch".
func fromFile(name, key string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{VolumeName: "scratch", Path: "vars", Key: key}}}
}

func TestAttack_FileOfVariables(t *testing.T) {
	many := make([]corev1.EnvVar, 10_000)
	for i := range many {
		many[i] = fromFile(fmt.Sprint("V", i), "LAST")
	}
	for _, tc := range []struct {
		name  string
		make  func(file string) error
		env   []corev1.EnvVar
		fails string
	}{
		{"a FIFO", func(file string) error { return syscall.Mkfifo(file, 0o600) }, []corev1.EnvVar{fromFile("X", "X")}, "couldn't parse env file"},
		{"a device", func(file string) error { return syscall.Mknod(file, syscall.S_IFCHR|0o600, 1<<8|5) }, []corev1.EnvVar{fromFile("X", "X")}, "couldn't parse env file"},
		{"10 TB with holes", func(file string) error {
			if err := os.WriteFile(file, nil, 0o600); err != nil {
				return err
			}
			return os.Truncate(file, 10<<40)
		}, []corev1.EnvVar{fromFile("X", "X")}, "couldn't parse env file"},
		{"a value of a million lines", func(file string) error {
			return os.WriteFile(file, []byte("X='"+strings.Repeat("\n", 1<<20-16)), 0o600)
		}, []corev1.EnvVar{fromFile("X", "X")}, "couldn't parse env file"},
		{"10,000 variables from one large file", func(file string) error {
			var lines strings.Builder
			for i := 0; lines.Len() < 1<<20-100; i++ {
				fmt.Fprintf(&lines, "K%d='v'\n", i)
			}
			return os.WriteFile(file, []byte(lines.String()+"LAST='z'\n"), 0o600)
		}, many, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			maker, pod, scratch := scratchPod(t)
			err := tc.make(filepath.Join(scratch, "vars"))
			if tc.name == "a device" && errors.Is(err, syscall.EPERM) {
				t.Log("devices cannot be made here")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			attacktest.Budget{Memory: 64 << 20, CPU: 5 * time.Second}.Spend(t, func() {
				got, _, _, err := maker.Container(t.Context(), pod, &corev1.Container{Name: "c", Env: tc.env})
				if tc.fails == "" && (err != nil || len(got) != len(tc.env)) || tc.fails != "" && (err == nil || err.Error() != tc.fails) {
					t.Errorf("%d variables, %v", len(got), err)
				}
			})
		})
	}
}

// TestAttack_References: variables that refer to variables that refer to variables grow tenfold with each.
func TestAttack_References(t *testing.T) {
	tenfold := func(n int) (vars []corev1.EnvVar) {
		vars = append(vars, corev1.EnvVar{Name: "V0", Value: strings.Repeat("x", 10)})
		for i := range n {
			vars = append(vars, corev1.EnvVar{Name: fmt.Sprint("V", i+1), Value: strings.Repeat(fmt.Sprintf("$(V%d)", i), 10)})
		}
		return vars
	}
	large := corev1.EnvVar{Name: "L", Value: strings.Repeat("x", 100<<10)}
	many := func(one string, n int) []string {
		words := make([]string, n)
		for i := range words {
			words[i] = one
		}
		return words
	}
	same := make([]corev1.EnvVar, 20_000)
	for i := range same {
		same[i] = corev1.EnvVar{Name: fmt.Sprint("A", i), ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['a']"}}}
	}
	inEach := make([]corev1.EnvVar, 20_000)
	for i := range inEach {
		inEach[i] = corev1.EnvVar{Name: fmt.Sprint("V", i), Value: "x"}
	}
	for _, tc := range []struct {
		name      string
		container corev1.Container
		fails     string
	}{
		{"tenfold, twelve times", corev1.Container{Env: tenfold(12)}, "environment variable V5: more than " + strconv.Itoa(expand.Limit) + " bytes: argument list too long"},
		{"tenfold, and in the command", corev1.Container{Env: tenfold(4), Command: []string{strings.Repeat("$(V4)", 100_000)}}, "word 1 of the command: more than " + strconv.Itoa(expand.Limit) + " bytes: argument list too long"},
		{"many large words", corev1.Container{Env: []corev1.EnvVar{large}, Args: many("$(L)", 50_000)}, "the command: more than 6291456 bytes: argument list too long"},
		{"a large value in many variables", corev1.Container{Env: same}, "environment: more than 6291456 bytes: argument list too long"},
		{"a million references that lead nowhere", corev1.Container{Env: append(inEach, corev1.EnvVar{Name: "R", Value: strings.Repeat("$(", 60_000)}),
			Command: []string{strings.Repeat("$(NO)", 20_000)}, Args: many(strings.Repeat("$(V19999)", 10_000), 10)}, ""},
		{"much of everything", corev1.Container{Env: []corev1.EnvVar{large}, Command: many("$(L)", 35), Args: many("$(L)", 35)}, "environment and command: more than 6291456 bytes: argument list too long"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			maker, pod, _ := scratchPod(t)
			pod.Annotations = map[string]string{"a": strings.Repeat("x", 100<<10)}
			attacktest.Budget{Memory: 32 << 20, CPU: 5 * time.Second}.Spend(t, func() {
				_, _, _, err := maker.Container(t.Context(), pod, &tc.container)
				if tc.fails == "" && err != nil || tc.fails != "" && (err == nil || err.Error() != tc.fails) {
					t.Errorf("failed with %v", err)
				}
			})
		})
	}
}
