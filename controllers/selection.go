package controllers

import (
	"fmt"
	"slices"
	"strings"
)

// absent are upstream's controllers that are not there yet, or belong to features that are off. Turning them off is no error, nor is "*".
var absent = strings.Fields(`daemonset-controller job-controller cronjob-controller statefulset-controller replicationcontroller-controller disruption-controller
	horizontal-pod-autoscaler-controller endpointslice-controller endpointslice-mirroring-controller ttl-controller ttl-after-finished-controller node-route-controller service-lb-controller
	cloud-node-lifecycle-controller persistentvolume-expander-controller resourceclaim-controller device-taint-eviction-controller validatingadmissionpolicy-status-controller
	storageversion-garbage-collector-controller storage-version-migrator-controller selinux-warning-controller kube-apiserver-serving-clustertrustbundle-publisher-controller
	podcertificaterequest-cleaner-controller`)

// offByDefault are those that "*" leaves out, as upstream.
var offByDefault = []string{"bootstrap-signer-controller", "token-cleaner-controller"}

// aliases are the names that upstream's controllers had before.
var aliases = map[string]string{
	"attachdetach": "persistentvolume-attach-detach-controller", "bootstrapsigner": "bootstrap-signer-controller", "tokencleaner": "token-cleaner-controller",
	"clusterrole-aggregation": "clusterrole-aggregation-controller", "csrapproving": "certificatesigningrequest-approving-controller", "csrcleaner": "certificatesigningrequest-cleaner-controller",
	"csrsigning": "certificatesigningrequest-signing-controller", "deployment": "deployment-controller", "endpoint": "endpoints-controller", "ephemeral-volume": "ephemeral-volume-controller",
	"garbagecollector": "garbage-collector-controller", "namespace": "namespace-controller", "nodeipam": "node-ipam-controller", "nodelifecycle": "node-lifecycle-controller",
	"persistentvolume-binder": "persistentvolume-binder-controller", "podgc": "pod-garbage-collector-controller", "pv-protection": "persistentvolume-protection-controller",
	"pvc-protection": "persistentvolumeclaim-protection-controller", "replicaset": "replicaset-controller", "resourcequota": "resourcequota-controller",
	"root-ca-cert-publisher": "root-ca-certificate-publisher-controller", "serviceaccount": "serviceaccount-controller", "serviceaccount-token": "serviceaccount-token-controller",
	"legacy-service-account-token-cleaner": "legacy-serviceaccount-token-cleaner-controller",
	"cronjob":                              "cronjob-controller", "daemonset": "daemonset-controller", "disruption": "disruption-controller", "endpointslice": "endpointslice-controller",
	"endpointslicemirroring": "endpointslice-mirroring-controller", "horizontalpodautoscaling": "horizontal-pod-autoscaler-controller", "job": "job-controller",
	"persistentvolume-expander": "persistentvolume-expander-controller", "replicationcontroller": "replicationcontroller-controller", "statefulset": "statefulset-controller",
	"ttl": "ttl-controller", "ttl-after-finished": "ttl-after-finished-controller", "route": "node-route-controller", "service": "service-lb-controller",
}

// selection says which controllers run.
type selection struct{ list []string }

// newSelection reads a list as --controllers has it: "*" stands for all that are on by default, NAME turns one on, -NAME off; what comes first holds.
// It fails for names that nobody knows, for one that is asked for and not there, and where only a part of one of Vigil's is turned off.
func newSelection(list []string) (selection, error) {
	s := selection{list: make([]string, len(list))}
	for i, given := range list {
		name, off := strings.CutPrefix(given, "-")
		if alias, ok := aliases[name]; ok {
			name = alias
		}
		known := name == "*" || slices.ContainsFunc(rows, func(r row) bool { return slices.Contains(r.names, name) })
		switch {
		case !known && !slices.Contains(absent, name):
			return s, fmt.Errorf("%q is not in the list of known controllers", name)
		case !known && !off:
			return s, fmt.Errorf("--controllers: %s is not there yet", name)
		}
		if s.list[i] = name; off {
			s.list[i] = "-" + name
		}
	}
	for _, r := range rows {
		off := func(name string) bool { return !s.enabled(name) }
		if slices.ContainsFunc(r.names, s.enabled) && slices.ContainsFunc(r.names, off) {
			return s, fmt.Errorf("--controllers: %s are one controller, turn all of them on or off", strings.Join(r.names, ", "))
		}
	}
	return s, nil
}

// enabled says whether one with a name of upstream's runs.
func (s selection) enabled(name string) bool {
	for _, given := range s.list {
		switch given {
		case name:
			return true
		case "-" + name:
			return false
		}
	}
	return slices.Contains(s.list, "*") && !slices.Contains(offByDefault, name)
}

// runs says whether the row's controller runs.
func (s selection) runs(r *row) bool { return s.enabled(r.name()) }

// DefaultControllers are those that run unless something else is said: upstream's, and the two that kubeadm adds.
func DefaultControllers() []string { return append([]string{"*"}, offByDefault...) }
