// Package podspec has the rules of pod specs and pod templates that every workload kind shares: defaults, validation,
// warnings, the quality-of-service class. A file is a part of the spec: containers, probes, volumes, env, resources,
// affinity, security. [Default] and [DefaultTemplate] fill in what was left out, [Validate] and [ValidateTemplate]
// check the result, and [Options] says what a caller tolerates.
//
// What holds for real pods only (updates of a pod, its status, binding, resize) is in kinds/core. Field paths, error
// types and texts are those of upstream's pkg/apis/core/validation.
package podspec
