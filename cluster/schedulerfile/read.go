package schedulerfile

import (
	"bytes"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	configv1 "k8s.io/kube-scheduler/config/v1"
)

// File is what a file says, with defaults for what it does not say.
type File struct {
	Config configv1.KubeSchedulerConfiguration
	// Limited says that the file has a rate of requests, Profiled and Contended that it says something about profiles of the process:
	// where it does not, this scheduler's own defaults hold.
	Limited, Profiled, Contended bool
}

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme, serializer.EnableStrict)
	_      = must(configv1.AddToScheme(scheme))
)

func must(err error) error {
	if err != nil {
		panic(err)
	}
	return nil
}

// Read reads a file, JSON or YAML. Fields that are unknown or given twice are errors, as are values that are wrong or cannot be had.
func Read(file string) (*File, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	f, err := read(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return f, nil
}

func read(text []byte) (*File, error) {
	decoder := codecs.UniversalDeserializer()
	object, gvk, err := decoder.Decode(text, nil, nil)
	if err != nil {
		return nil, err
	}
	config, ok := object.(*configv1.KubeSchedulerConfiguration)
	if !ok {
		return nil, fmt.Errorf("couldn't decode as KubeSchedulerConfiguration, got %s: ", gvk)
	}
	if err := config.DecodeNestedObjects(decoder); err != nil {
		return nil, err
	}
	f := &File{
		Limited:   config.ClientConnection.QPS != 0,
		Profiled:  config.EnableProfiling != nil,
		Contended: config.EnableContentionProfiling != nil,
	}
	complete(config)
	config.SetGroupVersionKind(*gvk)
	f.Config = *config
	return f, nil
}

// Default is what holds when there is no file.
func Default() *File {
	f := &File{}
	f.Config.SetGroupVersionKind(configv1.SchemeGroupVersion.WithKind("KubeSchedulerConfiguration"))
	complete(&f.Config)
	return f
}

// Encode writes the whole configuration as YAML, as upstream's --write-config-to.
func (f *File) Encode() ([]byte, error) {
	config := f.Config.DeepCopy()
	encoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, json.SerializerOptions{Yaml: true})
	if err := config.EncodeNestedObjects(encoder); err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err := encoder.Encode(config, &text)
	return text.Bytes(), err
}
