// Package apps has the rows of the apps group (apps/v1), one file for each kind, and in scale.go the view of a
// workload's size that they share.
package apps
