// Package manifests reads static pods: pods that run on a node because a file there says so, whatever the API server says.
//
// Each file is a Pod in YAML or JSON. A Reader makes of it what the API server would have made, with defaults and validation, and refuses pods that need
// objects of the API. It tells of all pods at once, whenever there may be others. Who runs the pods, and shows them in the API as mirror pods, is the
// kubelet itself (static.go there).
package manifests
