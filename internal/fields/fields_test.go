package fields

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
)

// specs are what users write.
var specs = []any{
	corev1.PodSpec{}, corev1.ServiceSpec{}, corev1.PersistentVolumeClaimSpec{}, corev1.ReplicationControllerSpec{},
	appsv1.DeploymentSpec{}, appsv1.ReplicaSetSpec{}, appsv1.StatefulSetSpec{}, appsv1.DaemonSetSpec{}, batchv1.JobSpec{}, batchv1.CronJobSpec{},
	networkingv1.IngressSpec{}, networkingv1.NetworkPolicySpec{}, autoscalingv2.HorizontalPodAutoscalerSpec{}, policyv1.PodDisruptionBudgetSpec{},
}

// root is the repository.
const root = "../.."

// verdict is what is done with a field, and where it was read.
type verdict struct{ kind, where, line string }

// read reads the tables: verdicts by type and field; "*" stands for all fields of a type.
func read(t *testing.T) map[string]map[string]verdict {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables: %v", err)
	}
	table := map[string]map[string]verdict{}
	for _, name := range files {
		file, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		kind, n := "", 0
		for lines := bufio.NewScanner(file); lines.Scan(); {
			n++
			line, at := lines.Text(), fmt.Sprintf("%s:%d", name, n)
			words := strings.Fields(line)
			switch {
			case len(words) == 0 || words[0][0] == '#':
				continue
			case line[0] == '\t':
				words = append([]string{kind}, words...)
			case len(words) == 1:
				kind = words[0]
				continue
			}
			if len(words) < 4 {
				t.Fatalf("%s: type, field, verdict and place, not %q", at, line)
			}
			if table[words[0]] == nil {
				table[words[0]] = map[string]verdict{}
			}
			if _, twice := table[words[0]][words[1]]; twice {
				t.Errorf("%s: %s.%s twice", at, words[0], words[1])
			}
			table[words[0]][words[1]] = verdict{words[2], strings.Join(words[3:], " "), at}
		}
	}
	return table
}

// walk calls found with every field of a type and of those that it is made of.
func walk(t reflect.Type, seen map[reflect.Type]bool, found func(kind, field string)) {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || !strings.HasPrefix(t.PkgPath(), "k8s.io/api/") || seen[t] || t == reflect.TypeFor[corev1.PersistentVolumeClaim]() {
		return
	}
	seen[t] = true
	for i := range t.NumField() {
		f := t.Field(i)
		if !f.Anonymous {
			found(t.Name(), f.Name)
		}
		walk(f.Type, seen, found)
	}
	if t.NumField() == 0 {
		found(t.Name(), "*")
	}
}

func TestEveryFieldHasAVerdict(t *testing.T) {
	table := read(t)
	used := map[verdict]bool{}
	seen := map[reflect.Type]bool{}
	check := func(kind, field string) {
		v, ok := table[kind][field]
		if !ok {
			v, ok = table[kind]["*"]
			field = kind // it is dropped or refused as a whole
		}
		if !ok {
			t.Errorf("%s.%s: say in testdata what Vigil does with it", kind, field)
			return
		}
		used[v] = true
		if why := v.wrong(kind, field); why != "" {
			t.Errorf("%s: %s.%s %s %s: %s", v.line, kind, field, v.kind, v.where, why)
		}
	}
	for _, spec := range specs {
		walk(reflect.TypeOf(spec), seen, check)
	}
	walk(reflect.TypeFor[corev1.PersistentVolumeClaimSpec](), seen, check) // of a StatefulSet's claims
	for kind, fields := range table {
		for field, v := range fields {
			if !used[v] {
				t.Errorf("%s: there is no %s.%s", v.line, kind, field)
			}
		}
	}
}

// wrong says what is not right about a verdict; "" when it is.
func (v verdict) wrong(kind, field string) string {
	switch v.kind {
	case "done", "held", "warned":
		if !mentions(v.where, regexp.MustCompile(`\b`+field+`\b`)) {
			return "it does not name the field"
		}
	case "dropped", "refused":
		if !mentions(v.where, regexp.MustCompile(`\w`)) {
			return "there is no such place"
		}
	case "library":
		if !mentions(".", regexp.MustCompile(regexp.QuoteMeta(`"`+v.where+`"`))) {
			return "nobody imports it"
		}
	case "later":
		if !strings.Contains(notYet(), strings.ToLower(v.where)) {
			return "README does not say so"
		}
	case "none":
		if len(strings.Fields(v.where)) < 2 {
			return "say why"
		}
	default:
		return "there is no such verdict"
	}
	return ""
}

// sources has the text of the sources below a path, by path.
var sources = map[string][]string{}

func mentions(path string, what *regexp.Regexp) bool {
	texts, known := sources[path]
	if !known {
		_ = filepath.WalkDir(filepath.Join(root, path), func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return nil //nolint:nilerr // what is not there has no text
			case entry.IsDir() && (entry.Name() == "testdata" || entry.Name() == "bin" || name != filepath.Join(root, path) && strings.HasPrefix(entry.Name(), ".")):
				return filepath.SkipDir
			case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go"):
				if text, err := os.ReadFile(name); err == nil {
					texts = append(texts, string(text))
				}
			}
			return nil
		})
		sources[path] = texts
	}
	return slices.ContainsFunc(texts, what.MatchString)
}

// notYet is what README says that there is not, in lower case.
func notYet() string {
	text, _ := os.ReadFile(filepath.Join(root, "README.md"))
	_, after, _ := strings.Cut(string(text), "## What is not there yet")
	section, _, _ := strings.Cut(after, "\n## ")
	return strings.ToLower(strings.Join(strings.Fields(section), " "))
}

// TestVerdicts_AreChecked shows that the test above notices what it is for.
func TestVerdicts_AreChecked(t *testing.T) {
	for _, v := range []verdict{
		{"done", "kubelet/nowhere.go", ""}, {"done", "kubelet/backoff.go", ""}, {"library", "k8s.io/nowhere", ""}, {"later", "teleportation", ""},
		{"none", "because", ""}, {"ignored", "by nobody", ""}, {"refused", "nowhere", ""},
	} {
		if v.wrong("PodSpec", "HostAliases") == "" {
			t.Errorf("%+v is taken for right", v)
		}
	}
	if v := (verdict{"done", "kubelet/etcfiles/hosts.go", ""}); v.wrong("PodSpec", "HostAliases") != "" {
		t.Errorf("%+v: %s", v, v.wrong("PodSpec", "HostAliases"))
	}
}
