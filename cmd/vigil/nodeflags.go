package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletapis "k8s.io/kubelet/pkg/apis"

	"vigil/kubelet/configfile"
	"vigil/kubelet/node"
)

// nodeFlags say what the kubelet's Node is like.
type nodeFlags struct {
	taints   []string
	register bool
}

func (f *nodeFlags) add(flags *pflag.FlagSet, c *node.Config) {
	flags.BoolVar(&f.register, "register-node", true, "make the node's object; otherwise somebody else does")
	flags.StringToStringVar(&c.Labels, "node-labels", nil, "further labels of the node's object")
	flags.StringSliceVar(&f.taints, "register-with-taints", nil, "taints of the node's object when it is made: KEY=VALUE:EFFECT")
	flags.StringVar(&c.ProviderID, "provider-id", "", "by which a cloud provider knows the machine")
}

func (f *nodeFlags) apply(c *node.Config) error {
	c.NoRegister, c.Taints = !f.register, nil
	for _, given := range f.taints {
		taint, err := configfile.ParseTaint(given)
		if err != nil {
			return fmt.Errorf("--register-with-taints: %w", err)
		}
		c.Taints = append(c.Taints, taint)
	}
	return checkLabels(c.Labels)
}

// checkLabels refuses labels that a node may not give itself (NodeRestriction refuses them too), in upstream's words.
func checkLabels(labels map[string]string) error {
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		if wrong := validation.IsQualifiedName(name); len(wrong) > 0 {
			return fmt.Errorf("--node-labels: %q: %s", name, strings.Join(wrong, "; "))
		}
		if wrong := validation.IsValidLabelValue(labels[name]); len(wrong) > 0 {
			return fmt.Errorf("--node-labels: %s=%q: %s", name, labels[name], strings.Join(wrong, "; "))
		}
		namespace, _, found := strings.Cut(name, "/")
		ours := namespace == "kubernetes.io" || strings.HasSuffix(namespace, ".kubernetes.io") || namespace == "k8s.io" || strings.HasSuffix(namespace, ".k8s.io")
		if found && ours && !kubeletapis.IsKubeletLabel(name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return fmt.Errorf("unknown 'kubernetes.io' or 'k8s.io' labels specified with --node-labels: %v\n--node-labels in the 'kubernetes.io' namespace must begin with an allowed prefix (%s) or be in the specifically allowed set (%s)",
			unknown, strings.Join(kubeletapis.KubeletLabelNamespaces(), ", "), strings.Join(kubeletapis.KubeletLabels(), ", "))
	}
	return nil
}
