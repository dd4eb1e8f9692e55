// Package core has the rows of the core group (v1): one file for each kind, or a few with its name in front where a
// kind has much to say (pod.go, pod_table.go, pod_binding.go ...). Each constructor returns a new row and keeps
// nothing; package kinds/all puts the rows into the server's table.
package core
