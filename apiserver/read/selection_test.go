package read

import (
	"errors"
	"net/url"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"vigil/apiserver/request"
	"vigil/kinds/core"
)

// FuzzSelection reads selectors from a query: nothing panics, errors are Statuses, and a selector that was understood means
// the same after it has been printed and read again.
func FuzzSelection(f *testing.F) {
	f.Add("a=b,c!=d,e,!f,g in (h,i),j notin (k),l>1", "metadata.name=x,spec.nodeName!=", "x")
	f.Add("x in (,a),y=", `status.phase=a\,b\=c\\`, "")
	f.Add("a in (", `spec.color==1`, "n")
	f.Add("example.com/a-b=,(", "=,", "")
	set := labels.Set{"a": "b", "c": "", "e": "1", "g": "h", "j": "k", "l": "2"}
	pod := core.Pod()
	f.Fuzz(func(t *testing.T, label, field, name string) {
		query := url.Values{"labelSelector": {label}, "fieldSelector": {field}}.Encode()
		opts, err := request.ParseList(query)
		isStatus(t, err)
		if err != nil {
			return
		}
		if opts.LabelSelector != nil {
			again, err := labels.Parse(opts.LabelSelector.String())
			if err != nil || again.Matches(set) != opts.LabelSelector.Matches(set) || again.String() != opts.LabelSelector.String() {
				t.Fatalf("%q: %v, again %v (%v)", label, opts.LabelSelector, again, err)
			}
		}
		if opts.FieldSelector != nil {
			again, err := fields.ParseSelector(opts.FieldSelector.String())
			if err != nil || again.String() != opts.FieldSelector.String() {
				t.Fatalf("%q: %v, again %v (%v)", field, opts.FieldSelector, again, err)
			}
		}
		sel, err := Selection(pod, &request.Info{Namespace: "default", Name: name}, &opts)
		isStatus(t, err)
		if err == nil && sel.Name != name {
			t.Fatalf("selects the name %q, want %q", sel.Name, name)
		}
	})
}

func isStatus(t *testing.T, err error) {
	var status apierrors.APIStatus
	if err != nil && !errors.As(err, &status) {
		t.Fatalf("%v is no Status", err)
	}
}
