// Package quota knows what objects count against resource quotas: how much of which resources, and whether a quota's scopes concern
// them. The API server asks it before it stores an object, the controller when it adds up what is there; so they agree.
//
// Amounts are core/v1 ResourceLists under the names that quotas have: pods, requests.cpu, count/deployments.apps,
// gold.storageclass.storage.k8s.io/requests.storage, gpu.deviceclass.resource.k8s.io/devices. Follows upstream's pkg/quota/v1/evaluator/core.
//
// Start reading at Evaluator.
package quota
