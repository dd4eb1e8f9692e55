// Package batch has the kinds of the API group batch: Job and CronJob. What their pod templates share with those of other
// workloads is in kinds/podspec.
package batch
