// Package deployment rolls out what a Deployment says, by way of ReplicaSets: one for each pod template there has been.
//
// The set whose template equals the Deployment's is the new one, the others are old. A rolling update moves replicas from the
// old sets to the new one without exceeding maxSurge or falling below maxUnavailable; Recreate empties the old sets first.
// Old sets are kept, empty, as the history that `kubectl rollout undo` goes back to, numbered by the annotation
// deployment.kubernetes.io/revision.
//
// Each reconciliation looks at the sets as they are and does one step; what happens next wakes it again. Rules, annotations,
// conditions and texts are upstream's (kubernetes/pkg/controller/deployment). Start reading at controller.go; arithmetic.go
// holds the sums.
package deployment
