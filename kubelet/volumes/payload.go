package volumes

import (
	"fmt"
	"maps"
	"os"

	corev1 "k8s.io/api/core/v1"

	"vigil/kubelet/internal/downward"
	"vigil/kubelet/volumes/internal/contents"
)

// mode is the mode of a file: its own, or the volume's default.
func mode(own *int32, byDefault *int32, otherwise int32) os.FileMode {
	switch {
	case own != nil:
		return os.FileMode(*own)
	case byDefault != nil:
		return os.FileMode(*byDefault)
	}
	return os.FileMode(otherwise)
}

// keyed makes a payload of the keys of an object: all, or those that items name.
func keyed(what string, data map[string][]byte, items []corev1.KeyToPath, byDefault *int32, optional bool) (contents.Payload, error) {
	p := make(contents.Payload, len(data))
	if len(items) == 0 {
		for key, value := range data {
			p[key] = contents.File{Data: value, Mode: mode(nil, byDefault, corev1.ConfigMapVolumeSourceDefaultMode)}
		}
		return p, nil
	}
	for _, item := range items {
		value, ok := data[item.Key]
		if !ok {
			if optional {
				continue
			}
			return nil, fmt.Errorf("references non-existent %s key: %s", what, item.Key)
		}
		p[item.Path] = contents.File{Data: value, Mode: mode(item.Mode, byDefault, corev1.ConfigMapVolumeSourceDefaultMode)}
	}
	return p, nil
}

func configMapPayload(c *corev1.ConfigMap, items []corev1.KeyToPath, byDefault *int32, optional bool) (contents.Payload, error) {
	return keyed("config", configMapData(c), items, byDefault, optional)
}

// configMapData is what a ConfigMap has by key, whether it is text or not.
func configMapData(c *corev1.ConfigMap) map[string][]byte {
	data := make(map[string][]byte, len(c.Data)+len(c.BinaryData))
	for key, value := range c.Data {
		data[key] = []byte(value)
	}
	maps.Copy(data, c.BinaryData)
	return data
}

func secretPayload(s *corev1.Secret, items []corev1.KeyToPath, byDefault *int32, optional bool) (contents.Payload, error) {
	return keyed("secret", s.Data, items, byDefault, optional)
}

// downwardPayload makes a payload of what a pod says about itself. It has room for so many bytes.
func downwardPayload(pod *corev1.Pod, items []corev1.DownwardAPIVolumeFile, byDefault *int32, allocatable func() corev1.ResourceList, room int) (contents.Payload, error) {
	p := make(contents.Payload, len(items))
	var node corev1.ResourceList
	if allocatable != nil {
		node = allocatable()
	}
	fields := map[string][]byte{} // a field may be asked for under many paths
	for _, item := range items {
		var value []byte
		switch {
		case item.FieldRef != nil:
			known := false
			if value, known = fields[item.FieldRef.FieldPath]; !known {
				text, err := downward.Field(pod, item.FieldRef.FieldPath)
				if err != nil {
					return nil, err
				}
				value = []byte(text)
				fields[item.FieldRef.FieldPath] = value
			}
		case item.ResourceFieldRef != nil:
			text, err := downward.Resource(pod, nil, item.ResourceFieldRef, node)
			if err != nil {
				return nil, err
			}
			value = []byte(text)
		}
		if room -= len(value); room < 0 {
			return nil, errNoRoom
		}
		p[item.Path] = contents.File{Data: value, Mode: mode(item.Mode, byDefault, corev1.DownwardAPIVolumeSourceDefaultMode)}
	}
	return p, nil
}
