package admission

import (
	"context"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"vigil/kinds"
)

// noter is a plug-in that notes that it was asked.
type noter struct {
	name  string
	noted *[]string
}

func (n noter) Name() string { return n.name }

func (n noter) Handles(_ *kinds.Kind, _ string, op Operation) bool { return op != Delete }

func (n noter) Admit(context.Context, *Attributes) error {
	*n.noted = append(*n.noted, "admit "+n.name)
	return nil
}

func (n noter) Validate(context.Context, *Attributes) error {
	*n.noted = append(*n.noted, "validate "+n.name)
	return nil
}

// fickle is one that says at run time what it wants.
type fickle struct {
	noter
	wants *bool
}

func (f fickle) Wants(k *kinds.Kind, subresource string, op Operation) bool {
	return *f.wants && k.Resource == "things" && subresource == "" && op == Create
}

// TestPlan_Dynamic: a plug-in that says at run time what it wants is asked for each operation, keeps its place in the order, and costs nothing
// but the question as long as it wants nothing.
func TestPlan_Dynamic(t *testing.T) {
	var noted []string
	var first, last bool
	chain := New([]Plugin{
		fickle{noter{"first", &noted}, &first}, noter{"static", &noted}, fickle{noter{"last", &noted}, &last},
	}, nil)
	thing := &kinds.Kind{GVK: schema.GroupVersionKind{Version: "v1", Kind: "Thing"}, Resource: "things", Subresources: []kinds.Subresource{{Name: "status"}}}
	plan := chain.Plan(thing)
	run := func(p *Plan, subresource string, op Operation) string {
		noted = nil
		if steps := p.For(subresource, op); steps != nil {
			for _, phase := range []func(context.Context, *Attributes) error{steps.Mutate, steps.Validate} {
				if err := phase(t.Context(), &Attributes{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		return strings.Join(noted, ", ")
	}
	for _, c := range []struct {
		first, last bool
		subresource string
		op          Operation
		want        string
	}{
		{false, false, "", Create, "admit static, validate static"},
		{true, false, "", Create, "admit first, admit static, validate first, validate static"},
		{false, true, "", Create, "admit static, admit last, validate static, validate last"},
		{true, true, "", Create, "admit first, admit static, admit last, validate first, validate static, validate last"},
		{true, true, "status", Create, "admit static, validate static"},
		{true, true, "", Update, "admit static, validate static"},
		{true, true, "", Delete, ""},
	} {
		first, last = c.first, c.last
		if got := run(plan, c.subresource, c.op); got != c.want {
			t.Errorf("%s of %q, wanted by the first %v, by the last %v: %s; want %s", c.op, c.subresource, c.first, c.last, got, c.want)
		}
	}
	alone := New([]Plugin{fickle{noter{"alone", &noted}, &first}}, nil).Plan(thing)
	if first = false; alone.For("", Create) != nil {
		t.Error("steps that nobody wants")
	}
	if first = true; run(alone, "", Create) != "admit alone, validate alone" {
		t.Errorf("noted %q", noted)
	}
}
