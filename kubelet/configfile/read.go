package configfile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	strictjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// kind is what a file is.
var kind = kubeletv1beta1.SchemeGroupVersion.WithKind("KubeletConfiguration")

// dropInExtension is what names of drop-ins end with; other files in their directory are something else's.
const dropInExtension = ".conf"

// File is what a configuration file and its drop-ins say together, without defaults.
type File struct {
	Config kubeletv1beta1.KubeletConfiguration
}

// Read reads a file ("": none) and the drop-ins in a directory and below ("": none), which change it in the order of their names: objects
// are merged field by field, anything else is replaced (RFC 7396). Fields that are unknown or given twice are errors, with upstream's texts.
func Read(file, dropIns string) (*File, error) {
	whole := map[string]any{}
	if file != "" {
		one, err := readOne(file)
		if err != nil {
			return nil, fmt.Errorf("failed to load kubelet config file, path: %s, error: %w", file, err)
		}
		whole = one
	}
	if dropIns != "" {
		if err := filepath.WalkDir(dropIns, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || filepath.Ext(path) != dropInExtension {
				return err
			}
			one, err := readOne(path)
			if err != nil {
				return fmt.Errorf("failed to load kubelet dropin file, path: %s, error: %w", path, err)
			}
			merge(whole, one)
			return nil
		}); err != nil {
			return nil, fmt.Errorf("failed to merge kubelet configs: %w", err)
		}
	}
	text, err := json.Marshal(whole)
	if err != nil {
		return nil, err
	}
	f := &File{}
	return f, json.Unmarshal(text, &f.Config)
}

// readOne reads a file, JSON or YAML, and checks that each of its fields exists and has a value of its type.
func readOne(file string) (map[string]any, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("failed to read kubelet config file %q, error: %w", file, err)
	}
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, fmt.Errorf("kubelet config file %q is empty", file)
	}
	tree := map[string]any{}
	if err := yaml.UnmarshalStrict(text, &tree); err != nil {
		return nil, fmt.Errorf("failed to decode: %w", err)
	}
	apiVersion, _ := tree["apiVersion"].(string)
	name, _ := tree["kind"].(string)
	switch given := schema.FromAPIVersionAndKind(apiVersion, name); {
	case name == "":
		return nil, fmt.Errorf("failed to decode: %w", runtime.NewMissingKindErr(string(text)))
	case apiVersion == "":
		return nil, fmt.Errorf("failed to decode: %w", runtime.NewMissingVersionErr(string(text)))
	case given != kind:
		return nil, fmt.Errorf("failed to decode: no kind %q is registered for version %q; this kubelet reads %s of %s", name, apiVersion, kind.Kind, kind.GroupVersion())
	}
	asJSON, err := json.Marshal(tree)
	if err != nil {
		return nil, err
	}
	var config kubeletv1beta1.KubeletConfiguration
	strict, err := strictjson.UnmarshalStrict(asJSON, &config)
	if err == nil && len(strict) > 0 {
		err = runtime.NewStrictDecodingError(strict)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to decode: %w", err)
	}
	return tree, nil
}

// merge changes a tree as another says.
func merge(into, from map[string]any) {
	for name, value := range from {
		object, isObject := value.(map[string]any)
		before, wasObject := into[name].(map[string]any)
		switch {
		case value == nil:
			delete(into, name)
		case isObject && wasObject:
			merge(before, object)
		default:
			into[name] = value
		}
	}
}

// sortedPairs writes a map as flags take it: "a=1,b=2".
func sortedPairs(m map[string]string, separator string) string {
	text := ""
	for i, name := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			text += ","
		}
		text += name + separator + m[name]
	}
	return text
}
