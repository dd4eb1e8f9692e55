package core

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"vigil/kinds"
	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

// validatePodStatusUpdate checks a status against the one before: what a kubelet never reports is refused.
func validatePodStatusUpdate(obj, old kinds.Object) field.ErrorList {
	pod, oldPod := obj.(*corev1.Pod), old.(*corev1.Pod)
	status, before, path := &pod.Status, &oldPod.Status, field.NewPath("status")
	errs := validatePodAnnotationUpdate(pod, oldPod)
	errs = append(errs, validatePodConditions(status.Conditions, field.NewPath("metadata", "conditions"))...)
	if pod.Spec.NodeName != oldPod.Spec.NodeName {
		errs = append(errs, field.Forbidden(path.Child("nodeName"), "may not be changed directly"))
	}
	if name := status.NominatedNodeName; name != "" && name != before.NominatedNodeName {
		errs = append(errs, validate.Name(name, path.Child("nominatedNodeName"))...)
	}
	errs = append(errs, validate.Immutable(status.QOSClass, before.QOSClass, path.Child("qosClass"))...)

	spec := &oldPod.Spec
	policy := spec.RestartPolicy
	if mayBeginAnew(spec) {
		policy = corev1.RestartPolicyAlways // for any of its containers
	}
	errs = append(errs, validateTransitions(status.ContainerStatuses, before.ContainerStatuses,
		policy, spec.Containers, path.Child("containerStatuses"))...)
	errs = append(errs, validateTransitions(status.InitContainerStatuses, before.InitContainerStatuses,
		policy, spec.InitContainers, path.Child("initContainerStatuses"))...)
	// Ephemeral containers are never restarted, whatever the pod's policy is.
	errs = append(errs, validateTransitions(status.EphemeralContainerStatuses, before.EphemeralContainerStatuses,
		corev1.RestartPolicyNever, nil, path.Child("ephemeralContainerStatuses"))...)

	errs = append(errs, validateClaimStatuses(status.ResourceClaimStatuses, pod.Spec.ResourceClaims, path.Child("resourceClaimStatuses"))...)
	errs = append(errs, validateStatusIPs(podIPs(status), podIPs(before), path.Child("podIPs"))...)
	errs = append(errs, validateStatusIPs(hostIPs(status), hostIPs(before), path.Child("hostIPs"))...)
	errs = append(errs, validateFirstIPs(status, path)...)
	return append(errs, validateStatusUsers(pod, path)...)
}

// validatePodConditions checks the types of conditions that are not Kubernetes' own.
func validatePodConditions(conditions []corev1.PodCondition, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range conditions {
		switch c.Type {
		case corev1.PodScheduled, corev1.PodReady, corev1.PodInitialized:
		default:
			errs = append(errs, validate.QualifiedName(string(c.Type), path.Index(i).Child("Type"))...)
		}
	}
	return errs
}

// validateTransitions keeps containers terminated that will not be started again: by the pod's policy or, where the
// container has one, by its own.
func validateTransitions(statuses, old []corev1.ContainerStatus, policy corev1.RestartPolicy, containers []corev1.Container, path *field.Path) field.ErrorList {
	if policy == corev1.RestartPolicyAlways {
		return nil
	}
	var errs field.ErrorList
	byName := map[string]*corev1.Container{}
	for i := range containers {
		byName[containers[i].Name] = &containers[i]
	}
	for i, before := range old {
		terminated := before.State.Terminated
		if terminated == nil || mayRestart(byName[before.Name], terminated.ExitCode, policy) {
			continue
		}
		for _, now := range statuses {
			if now.Name == before.Name && now.State.Terminated == nil {
				errs = append(errs, field.Forbidden(path.Index(i).Child("state"), "may not be transitioned to non-terminated state"))
			}
		}
	}
	return errs
}

// mayBeginAnew says whether the end of a container may restart all containers of the pod (KEP-5532).
func mayBeginAnew(spec *corev1.PodSpec) bool {
	return slices.ContainsFunc(slices.Concat(spec.InitContainers, spec.Containers), func(c corev1.Container) bool {
		return slices.ContainsFunc(c.RestartPolicyRules, func(r corev1.ContainerRestartRule) bool {
			return r.Action == corev1.ContainerRestartRuleActionRestartAllContainers
		})
	})
}

// mayRestart says whether a container that has ended may run again; nil is one that the spec does not name.
func mayRestart(c *corev1.Container, exitCode int32, policy corev1.RestartPolicy) bool {
	if c != nil && c.RestartPolicy != nil {
		// Rules on exit codes can restart any container of the pod; what they do is not judged here.
		if len(c.RestartPolicyRules) > 0 {
			return true
		}
		policy = corev1.RestartPolicy(*c.RestartPolicy)
	}
	return policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && exitCode != 0
}

func validateClaimStatuses(statuses []corev1.PodResourceClaimStatus, claims []corev1.PodResourceClaim, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen, named := sets.New[string](), sets.New[string]()
	for _, c := range claims {
		named.Insert(c.Name)
	}
	for i, s := range statuses {
		at := path.Index(i).Child("name")
		if !named.Has(s.Name) {
			errs = append(errs, field.Invalid(at, s.Name, "must match the name of an entry in `spec.resourceClaims`"))
		}
		if seen.Has(s.Name) {
			errs = append(errs, field.Duplicate(at, s.Name))
		}
		seen.Insert(s.Name)
		if s.ResourceClaimName != nil {
			errs = append(errs, validate.Name(*s.ResourceClaimName, at)...)
		}
	}
	return errs
}

func podIPs(status *corev1.PodStatus) []string {
	var ips []string
	for _, ip := range status.PodIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

func hostIPs(status *corev1.PodStatus) []string {
	var ips []string
	for _, ip := range status.HostIPs {
		ips = append(ips, ip.IP)
	}
	return ips
}

// validateStatusIPs wants valid addresses, at most one of each family.
func validateStatusIPs(ips, old []string, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	seen, stored := sets.New[string](), validate.StoredOf(old)
	for i, ip := range ips {
		errs = append(errs, validate.LegacyIP(path.Index(i), ip, stored)...)
		if seen.Has(ip) {
			errs = append(errs, field.Duplicate(path.Index(i), ip))
		}
		seen.Insert(ip)
	}
	if len(ips) > 1 && len(errs) == 0 {
		if dual, err := netutils.IsDualStackIPStrings(ips); err != nil || !dual || len(ips) > 2 {
			errs = append(errs, field.Invalid(path, strings.Join(ips, ","), "may specify no more than one IP for each IP family"))
		}
	}
	return errs
}

// validateFirstIPs wants the single address and the first of the list to be the same.
func validateFirstIPs(status *corev1.PodStatus, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if ips := status.HostIPs; len(ips) > 0 && ips[0].IP != status.HostIP {
		errs = append(errs, field.Invalid(path.Child("hostIPs").Index(0).Child("ip"), ips[0].IP, "must be equal to `hostIP`"))
	}
	return errs
}

// validateStatusUsers checks the users that containers are reported to run as.
func validateStatusUsers(pod *corev1.Pod, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	windows := pod.Spec.OS != nil && pod.Spec.OS.Name == corev1.Windows
	for _, list := range []struct {
		name     string
		statuses []corev1.ContainerStatus
	}{
		{"containerStatuses", pod.Status.ContainerStatuses},
		{"initContainerStatuses", pod.Status.InitContainerStatuses},
		{"ephemeralContainerStatuses", pod.Status.EphemeralContainerStatuses},
	} {
		for i, s := range list.statuses {
			if s.User == nil || s.User.Linux == nil {
				continue
			}
			at := path.Child(list.name).Index(i).Child("linux")
			if windows {
				errs = append(errs, field.Forbidden(at, "cannot be set for a windows pod"))
				continue
			}
			errs = append(errs, podspec.ValidateLinuxUser(s.User.Linux, at)...)
		}
	}
	return errs
}
