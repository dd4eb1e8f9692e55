// Package upstream says what Vigil does with the flags of upstream's components: kube-apiserver, kube-controller-manager, kube-scheduler and kubelet
// of Kubernetes 1.37. A manifest that starts one of them starts Vigil's.
//
// Each component has a table of sections, which is also the order of its --help. A flag works (the component defines it), has one value that it may
// have because Vigil behaves so anyway, or has no effect. The table says why, in the sentence that a user reads. Start reading at table.go; the tables
// are apiserver.go, controllermanager.go, scheduler.go and kubelet.go; feature gates are in gates.go.
//
// A value that would change behaviour and cannot is always refused: a component never starts as something else than it was told to be.
package upstream
