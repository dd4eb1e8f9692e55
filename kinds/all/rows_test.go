package all

import (
	"math/rand"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/apitesting/fuzzer"
	metafuzzer "k8s.io/apimachinery/pkg/apis/meta/fuzzer"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"

	"vigil/kinds"
	"vigil/object"
)

// served is what discovery says of each resource: short names, categories, path in storage, verbs when not all, flags
// and subresources.
type served struct {
	Short, Categories []string
	Path              string
	Namespaced        bool
	Verbs             []string
	CreateOnUpdate    bool
	Unconditional     bool
	ReturnsDeleted    bool
	Subresources      map[string][]string
}

var (
	readWrite = []string{"get", "patch", "update"}
	post      = []string{"create"}
	stream    = []string{"create", "get"}
	anyMethod = []string{"create", "delete", "get", "patch", "update"}

	extensions = []string{"api-extensions"}
)

// goTypes has the Go types of all kinds.
var goTypes = func() *runtime.Scheme {
	s := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme, metricsv1beta1.AddToScheme} {
		if err := add(s); err != nil {
			panic(err)
		}
	}
	return s
}()

// TestRows compares the table with what upstream 1.37 serves.
func TestRows(t *testing.T) {
	want := map[string]served{
		"poddisruptionbudgets.policy": {
			Short: []string{"pdb"}, Path: "poddisruptionbudgets", Namespaced: true, Subresources: map[string][]string{"status": readWrite},
		},
		"horizontalpodautoscalers.autoscaling": {
			Short: []string{"hpa"}, Categories: []string{"all"}, Path: "horizontalpodautoscalers", Namespaced: true, Unconditional: true,
			Subresources: map[string][]string{"status": readWrite},
		},
		"jobs.batch": {
			Categories: []string{"all"}, Path: "jobs", Namespaced: true, Unconditional: true,
			Subresources: map[string][]string{"status": readWrite},
		},
		"cronjobs.batch": {
			Short: []string{"cj"}, Categories: []string{"all"}, Path: "cronjobs", Namespaced: true, Unconditional: true,
			Subresources: map[string][]string{"status": readWrite},
		},
		"statefulsets.apps": {
			Short: []string{"sts"}, Categories: []string{"all"}, Path: "statefulsets", Namespaced: true, Unconditional: true,
			Subresources: map[string][]string{"scale": readWrite, "status": readWrite},
		},
		"configmaps":           {Short: []string{"cm"}, Path: "configmaps", Namespaced: true, Unconditional: true},
		"endpoints":            {Short: []string{"ep"}, Path: "services/endpoints", Namespaced: true, CreateOnUpdate: true, Unconditional: true},
		"events":               {Short: []string{"ev"}, Path: "events", Namespaced: true, CreateOnUpdate: true, Unconditional: true},
		"events.events.k8s.io": {Short: []string{"ev"}, Path: "events", Namespaced: true, CreateOnUpdate: true, Unconditional: true},
		"namespaces": {
			Short: []string{"ns"}, Path: "namespaces", Unconditional: true, ReturnsDeleted: true,
			Verbs:        []string{"create", "delete", "get", "list", "patch", "update", "watch"},
			Subresources: map[string][]string{"finalize": {"update"}, "status": readWrite},
		},
		"nodes": {Short: []string{"no"}, Path: "minions", Unconditional: true, Subresources: map[string][]string{"proxy": anyMethod, "status": readWrite}},
		"pods": {
			Short: []string{"po"}, Categories: []string{"all"}, Path: "pods", Namespaced: true, Unconditional: true, ReturnsDeleted: true,
			Subresources: map[string][]string{
				"attach": stream, "binding": post, "ephemeralcontainers": readWrite, "eviction": post, "exec": stream, "log": {"get"},
				"portforward": stream, "proxy": anyMethod, "resize": readWrite, "status": readWrite,
			},
		},
		"limitranges":            {Short: []string{"limits"}, Path: "limitranges", Namespaced: true, CreateOnUpdate: true, Unconditional: true},
		"persistentvolumes":      {Short: []string{"pv"}, Path: "persistentvolumes", Unconditional: true, ReturnsDeleted: true, Subresources: map[string][]string{"status": readWrite}},
		"persistentvolumeclaims": {Short: []string{"pvc"}, Path: "persistentvolumeclaims", Namespaced: true, Unconditional: true, ReturnsDeleted: true, Subresources: map[string][]string{"status": readWrite}},
		"podtemplates":           {Path: "podtemplates", Namespaced: true, CreateOnUpdate: true, Unconditional: true, ReturnsDeleted: true},
		"replicationcontrollers": {
			Short: []string{"rc"}, Categories: []string{"all"}, Path: "controllers", Namespaced: true, Unconditional: true,
			Subresources: map[string][]string{"scale": readWrite, "status": readWrite},
		},
		"resourcequotas": {Short: []string{"quota"}, Path: "resourcequotas", Namespaced: true, Unconditional: true, ReturnsDeleted: true, Subresources: map[string][]string{"status": readWrite}},
		"secrets":        {Path: "secrets", Namespaced: true, Unconditional: true},
		"serviceaccounts": {
			Short: []string{"sa"}, Path: "serviceaccounts", Namespaced: true, Unconditional: true, ReturnsDeleted: true,
			Subresources: map[string][]string{"token": post},
		},
		"services": {
			Short: []string{"svc"}, Categories: []string{"all"}, Path: "services/specs", Namespaced: true,
			CreateOnUpdate: true, Unconditional: true, ReturnsDeleted: true, Subresources: map[string][]string{"proxy": anyMethod, "status": readWrite},
		},
		"controllerrevisions.apps": {Path: "controllerrevisions", Namespaced: true, Unconditional: true},
		"daemonsets.apps": {
			Short: []string{"ds"}, Categories: []string{"all"}, Path: "daemonsets", Namespaced: true, Unconditional: true,
			Subresources: map[string][]string{"status": readWrite},
		},
		"deployments.apps": {
			Short: []string{"deploy"}, Categories: []string{"all"}, Path: "deployments", Namespaced: true, Unconditional: true,
			Subresources: map[string][]string{"scale": readWrite, "status": readWrite},
		},
		"replicasets.apps": {
			Short: []string{"rs"}, Categories: []string{"all"}, Path: "replicasets", Namespaced: true, Unconditional: true,
			Subresources: map[string][]string{"scale": readWrite, "status": readWrite},
		},
		"mutatingadmissionpolicies.admissionregistration.k8s.io":         {Categories: extensions, Path: "mutatingadmissionpolicies"},
		"mutatingadmissionpolicybindings.admissionregistration.k8s.io":   {Categories: extensions, Path: "mutatingadmissionpolicybindings"},
		"mutatingwebhookconfigurations.admissionregistration.k8s.io":     {Categories: extensions, Path: "mutatingwebhookconfigurations"},
		"validatingadmissionpolicies.admissionregistration.k8s.io":       {Categories: extensions, Path: "validatingadmissionpolicies", Subresources: map[string][]string{"status": readWrite}},
		"validatingadmissionpolicybindings.admissionregistration.k8s.io": {Categories: extensions, Path: "validatingadmissionpolicybindings"},
		"validatingwebhookconfigurations.admissionregistration.k8s.io":   {Categories: extensions, Path: "validatingwebhookconfigurations"},
		"flowschemas.flowcontrol.apiserver.k8s.io":                       {Path: "flowschemas", Unconditional: true, Subresources: map[string][]string{"status": readWrite}},
		"prioritylevelconfigurations.flowcontrol.apiserver.k8s.io":       {Path: "prioritylevelconfigurations", Unconditional: true, Subresources: map[string][]string{"status": readWrite}},

		"customresourcedefinitions.apiextensions.k8s.io": {
			Short: []string{"crd", "crds"}, Categories: extensions, Path: "apiextensions.k8s.io/customresourcedefinitions", Subresources: map[string][]string{"status": readWrite},
		},
		"apiservices.apiregistration.k8s.io": {Categories: extensions, Path: "apiregistration.k8s.io/apiservices", Subresources: map[string][]string{"status": readWrite}},

		"certificatesigningrequests.certificates.k8s.io": {
			Short: []string{"csr"}, Path: "certificatesigningrequests", Unconditional: true,
			Subresources: map[string][]string{"approval": readWrite, "status": readWrite},
		},
		"clustertrustbundles.certificates.k8s.io":          {Path: "clustertrustbundles"},
		"podcertificaterequests.certificates.k8s.io":       {Path: "podcertificaterequests", Namespaced: true, Subresources: map[string][]string{"status": readWrite}},
		"leases.coordination.k8s.io":                       {Path: "leases", Namespaced: true, CreateOnUpdate: true},
		"endpointslices.discovery.k8s.io":                  {Path: "endpointslices", Namespaced: true, Unconditional: true},
		"ingresses.networking.k8s.io":                      {Short: []string{"ing"}, Path: "ingress", Namespaced: true, Unconditional: true, Subresources: map[string][]string{"status": readWrite}},
		"ingressclasses.networking.k8s.io":                 {Path: "ingressclasses", Unconditional: true},
		"networkpolicies.networking.k8s.io":                {Short: []string{"netpol"}, Path: "networkpolicies", Namespaced: true, Unconditional: true},
		"ipaddresses.networking.k8s.io":                    {Short: []string{"ip"}, Path: "ipaddresses", Unconditional: true},
		"servicecidrs.networking.k8s.io":                   {Path: "servicecidrs", Unconditional: true, Subresources: map[string][]string{"status": readWrite}},
		"clusterrolebindings.rbac.authorization.k8s.io":    {Path: "clusterrolebindings", CreateOnUpdate: true, Unconditional: true},
		"clusterroles.rbac.authorization.k8s.io":           {Path: "clusterroles", CreateOnUpdate: true, Unconditional: true},
		"rolebindings.rbac.authorization.k8s.io":           {Path: "rolebindings", Namespaced: true, CreateOnUpdate: true, Unconditional: true},
		"roles.rbac.authorization.k8s.io":                  {Path: "roles", Namespaced: true, CreateOnUpdate: true, Unconditional: true},
		"deviceclasses.resource.k8s.io":                    {Path: "deviceclasses", Unconditional: true, ReturnsDeleted: true},
		"devicetaintrules.resource.k8s.io":                 {Path: "devicetaintrules", Subresources: map[string][]string{"status": readWrite}},
		"resourceclaims.resource.k8s.io":                   {Path: "resourceclaims", Namespaced: true, Unconditional: true, ReturnsDeleted: true, Subresources: map[string][]string{"status": readWrite}},
		"resourceclaimtemplates.resource.k8s.io":           {Path: "resourceclaimtemplates", Namespaced: true, Unconditional: true, ReturnsDeleted: true},
		"resourceslices.resource.k8s.io":                   {Path: "resourceslices", Unconditional: true, ReturnsDeleted: true},
		"storageversionmigrations.storagemigration.k8s.io": {Path: "storageversionmigrations", Subresources: map[string][]string{"status": readWrite}},
		"priorityclasses.scheduling.k8s.io":                {Short: []string{"pc"}, Path: "priorityclasses", Unconditional: true},
		"runtimeclasses.node.k8s.io":                       {Path: "runtimeclasses"},
		"csidrivers.storage.k8s.io":                        {Path: "csidrivers", ReturnsDeleted: true},
		"csinodes.storage.k8s.io":                          {Path: "csinodes", ReturnsDeleted: true},
		"csistoragecapacities.storage.k8s.io":              {Path: "csistoragecapacities", Namespaced: true},
		"storageclasses.storage.k8s.io":                    {Short: []string{"sc"}, Path: "storageclasses", Unconditional: true, ReturnsDeleted: true},
		"volumeattachments.storage.k8s.io":                 {Path: "volumeattachments", ReturnsDeleted: true, Subresources: map[string][]string{"status": readWrite}},
		"volumeattributesclasses.storage.k8s.io":           {Short: []string{"vac"}, Path: "volumeattributesclasses", Unconditional: true},
	}
	got := map[string]served{}
	for _, k := range Table().All() {
		if k.Path == "" {
			continue // serves nothing but an action of another row
		}
		s := served{
			Short: k.ShortNames, Categories: k.Categories, Path: k.Path, Namespaced: k.Namespaced, Verbs: k.Verbs,
			CreateOnUpdate: k.AllowCreateOnUpdate, Unconditional: k.UnconditionalUpdate, ReturnsDeleted: k.ReturnsDeleted,
		}
		if len(k.Subresources)+len(k.Connections) > 0 {
			s.Subresources = map[string][]string{}
		}
		for _, sub := range k.Subresources {
			s.Subresources[sub.Name] = sub.Verbs
		}
		for name, sub := range k.Connections {
			s.Subresources[name] = sub.Verbs
		}
		got[k.GroupResource().String()] = s
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("table (-upstream +got):\n%s", diff)
	}
}

// TestRows_Fit checks each row against the Go types it names and against itself.
func TestRows_Fit(t *testing.T) {
	paths := map[string]string{}
	for _, k := range Table().All() {
		t.Run(k.GroupResource().String(), func(t *testing.T) {
			if gvks, _, err := goTypes.ObjectKinds(k.New()); err != nil || !slices.Contains(gvks, k.GVK) {
				t.Errorf("New makes %v (%v), not %v", gvks, err, k.GVK)
			}
			if k.Singular != strings.ToLower(k.GVK.Kind) && k.GVK.Group != metricsv1beta1.GroupName { // metrics-server names none
				t.Errorf("singular %q", k.Singular)
			}
			if k.Path == "" {
				return
			}
			if gvks, _, err := goTypes.ObjectKinds(k.NewList()); err != nil || !slices.Contains(gvks, k.GVK.GroupVersion().WithKind(k.GVK.Kind+"List")) {
				t.Errorf("NewList makes %v (%v)", gvks, err)
			}
			if k.Type.APIVersion != k.GVK.GroupVersion().String() || k.Type.Kind != k.GVK.Kind || k.Type.Namespaced != k.Namespaced || k.Type.New == nil {
				t.Errorf("type %+v does not fit the row", k.Type)
			}
			if other, found := paths[k.Path]; found && k.View == nil || strings.Trim(k.Path, "/") != k.Path {
				t.Errorf("path %q, %s has it too", k.Path, other)
			}
			if k.View == nil {
				paths[k.Path] = k.Resource
			}
			for _, f := range k.Indexes {
				if !slices.ContainsFunc(k.Type.Fields, func(have object.Field) bool { return have.Label == f }) {
					t.Errorf("index %s is no selectable field", f)
				}
			}
			for _, c := range k.Columns {
				if c.Name == "" || c.Description == "" || !slices.Contains([]string{"string", "integer", "boolean", "number", "date"}, c.Type) {
					t.Errorf("column %+v", c)
				}
			}
			for _, s := range k.Subresources {
				part, view, action := s.Prepare != nil, s.View != nil && s.Apply != nil, s.Action != nil || s.NewView != nil && slices.Equal(s.Verbs, post)
				if s.Name == "" || len(s.Verbs) == 0 || !slices.IsSorted(s.Verbs) || !part && !view && !action {
					t.Errorf("subresource %+v", s)
				}
			}
			if k.NoDeleteCollection == slices.Contains(verbs(k), "deletecollection") {
				t.Errorf("verbs %v, NoDeleteCollection %v", k.Verbs, k.NoDeleteCollection)
			}
		})
	}
}

// TestRows_AnyObject runs all hooks of all rows over empty and random objects: none panics, defaults are the same the
// second time, what is defaulted is not shared between objects, cells fit their columns.
func TestRows_AnyObject(t *testing.T) {
	const seed, objects = 1, 100
	random := fuzzer.FuzzerFor(metafuzzer.Funcs, rand.NewSource(seed), serializer.NewCodecFactory(goTypes)).MaxDepth(10) // schemas nest
	for _, k := range Table().All() {
		if k.Path == "" {
			continue
		}
		t.Run(k.GroupResource().String(), func(t *testing.T) {
			exercise(t, k, k.New(), k.New())
			for range objects {
				obj, old := k.New(), k.New()
				random.Fill(obj)
				random.Fill(old)
				exercise(t, k, obj, old)
			}
		})
	}
}

func exercise(t *testing.T, k *kinds.Kind, obj, old kinds.Object) {
	t.Helper()
	if k.Default != nil {
		k.Default(obj)
		k.Default(old)
		again := clone(obj)
		k.Default(again)
		if diff := cmp.Diff(obj, again); diff != "" {
			t.Fatalf("defaults of defaults (-once +twice):\n%s", diff)
		}
	}
	before := clone(old)
	if k.PrepareCreate != nil {
		k.PrepareCreate(clone(obj))
	}
	if k.PrepareCreateFor != nil {
		k.PrepareCreateFor(clone(obj), kinds.User{})
	}
	if k.PrepareUpdate != nil {
		k.PrepareUpdate(obj, old)
	}
	if k.Validate != nil {
		k.Validate(obj)
	}
	if k.ValidateUpdate != nil {
		k.ValidateUpdate(obj, old)
	}
	if k.Warnings != nil {
		k.Warnings(obj, nil)
		k.Warnings(obj, old)
	}
	for _, s := range k.Subresources {
		changed := clone(obj)
		if s.Prepare != nil {
			s.Prepare(changed, old)
		}
		if s.Validate != nil {
			s.Validate(changed, old)
		}
		if s.View != nil {
			if view, err := s.View(clone(obj)); err == nil && s.Apply != nil {
				s.Apply(changed, view)
			}
		}
	}
	if k.Row != nil {
		if cells := k.Row(clone(obj), time.Now()); len(cells) != len(k.Columns) {
			t.Fatalf("%d cells for %d columns", len(cells), len(k.Columns))
		} else {
			checkCells(t, k, cells)
		}
	}
	if k.RowConditions != nil {
		k.RowConditions(obj)
	}
	if k.TTL != nil {
		k.TTL(obj)
	}
	if k.SpecFinalizers != nil {
		k.SpecFinalizers(obj)
	}
	if diff := cmp.Diff(before, old); diff != "" {
		t.Fatalf("hooks changed the stored object (-before +after):\n%s", diff)
	}
	if k.Graceful != nil {
		k.Graceful(old, &metav1.DeleteOptions{})
	}
}

func checkCells(t *testing.T, k *kinds.Kind, cells []any) {
	t.Helper()
	for i, cell := range cells {
		c := k.Columns[i]
		ok := false
		switch cell.(type) {
		case string:
			ok = c.Type == "string" || c.Type == "date"
		case int64:
			ok = c.Type == "integer" || c.Type == "string" // upstream has numbers in some text columns, too
		case bool:
			ok = c.Type == "boolean" || c.Type == "string" // likewise
		}
		if !ok {
			t.Fatalf("column %s of type %s has a %T", c.Name, c.Type, cell)
		}
	}
}

func clone(obj kinds.Object) kinds.Object { return obj.DeepCopyObject().(kinds.Object) }

func verbs(k *kinds.Kind) []string {
	if k.Verbs == nil {
		return kinds.AllVerbs
	}
	return k.Verbs
}
