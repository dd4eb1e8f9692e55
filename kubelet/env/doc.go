// Package env makes the environment of containers: the variables of services, of ConfigMaps and Secrets, of the pod's own
// fields, and those that the spec names, with the references $(NAME) between them and in commands.
//
// It follows upstream's makeEnvironmentVariables (pkg/kubelet/kubelet_pods.go); errors have its texts, which people see as the
// message of a container that waits with CreateContainerConfigError. Unlike there, the order of variables is always the same:
// those of envFrom as listed and by key, those of env as listed, those of services by name.
//
// Names are not checked again: the API server admits what a process can be given (KEP-4369), and the keys of ConfigMaps and
// Secrets are always among that.
//
// Start reading at [Maker.Container].
package env
