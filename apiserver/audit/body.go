package audit

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	auditapi "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

const (
	// maxBody is the most of a response that is kept for an event, in bytes.
	maxBody = 16 << 20
	// maxStatus is how much of a response is looked at for a Status.
	maxStatus = 64 << 10
)

// decoder reads the protobuf form of every built-in kind.
var decoder = protobuf.NewSerializer(scheme.Scheme, scheme.Scheme)

// toJSON is the JSON of a body, nil when there is none.
func toJSON(contentType string, body []byte) []byte {
	media, _, _ := strings.Cut(contentType, ";")
	switch media = strings.TrimSpace(media); {
	case strings.HasSuffix(media, "protobuf"):
		obj, gvk, err := decoder.Decode(body, nil, nil)
		if err != nil {
			return nil
		}
		obj.GetObjectKind().SetGroupVersionKind(*gvk)
		out, err := json.Marshal(obj)
		if err != nil {
			return nil
		}
		return out
	case strings.HasSuffix(media, "yaml"):
		out, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil
		}
		return out
	case media == "", strings.HasSuffix(media, "json"):
		if !json.Valid(body) {
			return nil
		}
		return append([]byte(nil), body...) // the buffer goes back to where it came from
	}
	return nil
}

func unknown(raw []byte) *runtime.Unknown {
	return &runtime.Unknown{Raw: raw, ContentType: runtime.ContentTypeJSON}
}

// fillReference adds to a reference what only the object says.
func fillReference(ref *auditapi.ObjectReference, object []byte) {
	var o struct {
		Metadata struct {
			Name, Namespace, ResourceVersion string
			UID                              types.UID
		}
	}
	if err := json.Unmarshal(object, &o); err != nil {
		return
	}
	set := func(field *string, value string) {
		if *field == "" {
			*field = value
		}
	}
	set(&ref.Name, o.Metadata.Name)
	set(&ref.Namespace, o.Metadata.Namespace)
	set(&ref.ResourceVersion, o.Metadata.ResourceVersion)
	if ref.UID == "" {
		ref.UID = o.Metadata.UID
	}
}

// asStatus returns the Status that object is, nil when it is something else.
func asStatus(object []byte) *metav1.Status {
	var status metav1.Status
	if err := json.Unmarshal(object, &status); err != nil || status.Kind != "Status" || status.APIVersion != corev1.SchemeGroupVersion.Version {
		return nil
	}
	return &status
}

// withoutManagedFields is an object, or a list or table of objects, without metadata.managedFields.
func withoutManagedFields(object []byte) []byte {
	var m map[string]any
	if err := json.Unmarshal(object, &m); err != nil {
		return object
	}
	strip(m)
	for _, item := range list(m, "items") {
		strip(item)
	}
	for _, row := range list(m, "rows") {
		if o, ok := row["object"].(map[string]any); ok {
			strip(o)
		}
	}
	out, err := json.Marshal(m)
	if err != nil {
		return object
	}
	return out
}

func strip(m map[string]any) {
	if meta, ok := m["metadata"].(map[string]any); ok {
		delete(meta, "managedFields")
	}
}

func list(m map[string]any, key string) (out []map[string]any) {
	items, _ := m[key].([]any)
	for _, item := range items {
		if o, ok := item.(map[string]any); ok {
			out = append(out, o)
		}
	}
	return out
}
