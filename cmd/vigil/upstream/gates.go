package upstream

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	_ "k8s.io/apiserver/pkg/features" // registers those of the generic API server
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	logsapi "k8s.io/component-base/logs/api/v1"
	metricsfeatures "k8s.io/component-base/metrics/features"
	zpagesfeatures "k8s.io/component-base/zpages/features"
)

// gates are Kubernetes' own feature gates, beside those that libraries register: stage, and whether the feature is on.
var gates = []struct {
	spec  featuregate.FeatureSpec
	names string
}{
	{featuregate.FeatureSpec{Default: true, LockToDefault: true, PreRelease: featuregate.GA}, `
		AnyVolumeDataSource AuthorizeNodeWithSelectors CPUManagerPolicyOptions CRDValidationRatcheting CSIMigrationPortworx CustomResourceFieldSelectors DisableAllocatorDualWrite DynamicResourceAllocation
		ExecProbeTimeout HonorPVReclaimPolicy ImageMaximumGCAge InOrderInformers InPlacePodVerticalScaling JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy
		KubeletCgroupDriverFromCRI KubeletTracing LogarithmicScaleDown MatchLabelKeysInPodAffinity MemoryManager MultiCIDRServiceAllocator NFTablesProxyMode
		NodeInclusionPolicyInPodTopologySpread NodeSwap OrderedNamespaceDeletion PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness
		PreferSameTrafficDistribution RecoverVolumeExpansionFailure RecursiveReadOnlyMounts RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation SchedulerQueueingHints
		SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo ServiceTrafficDistribution
		SidecarContainers SupplementalGroupsPolicy SystemdWatchdog TopologyAwareHints VolumeAttributesClass WinDSR WinOverlay`},
	{featuregate.FeatureSpec{Default: true, PreRelease: featuregate.GA}, `InformerResourceVersion TopologyManagerPolicyOptions`},
	{featuregate.FeatureSpec{Default: true, PreRelease: featuregate.Beta}, `
		AtomicFIFO AuthorizePodWebsocketUpgradeCreatePermission CRDObservedGenerationTracking CPUManagerPolicyBetaOptions CSIServiceAccountTokenSecrets ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation
		ClientsAllowTLSCacheGC ContainerCheckpoint ContainerRestartRules DRAAdminAccess DRAPrioritizedList DRAResourceClaimDeviceStatus DRASchedulerFilterTimeout
		DeploymentReplicaSetTerminatingReplicas DisableCPUQuotaWithExclusiveCPUs EnvFiles ExternalServiceAccountTokenSigner GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority
		HPAConfigurableTolerance HostnameOverride ImageVolume InOrderInformersBatchProcess KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages KubeletFineGrainedAuthz KubeletPSI
		KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders MatchLabelKeysInPodTopologySpread
		MatchLabelKeysInPodTopologySpreadSelectorMerge MaxUnavailableStatefulSet MutableCSINodeAllocatableCount NominatedNodeNameForExpectation OpportunisticBatching PodDeletionCost
		PodLevelResources PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets PreventStaticPodAPIReferences ProcMountType ReloadKubeletServerCertificateFile
		RotateKubeletServerCertificate SELinuxChangePolicy SELinuxMountReadWriteOncePod SchedulerAsyncPreemption SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction
		StatefulSetSemanticRevisionComparison StorageNamespaceIndex TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnlockWhileProcessingFIFO UserNamespacesSupport
		WatchListClient WindowsGracefulNodeShutdown`},
	{featuregate.FeatureSpec{PreRelease: featuregate.Beta}, `
		ClusterTrustBundle ClusterTrustBundleProjection LocalStorageCapacityIsolationFSQuotaMonitoring NodeLogQuery PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls
		StorageVersionMigrator`},
	{featuregate.FeatureSpec{PreRelease: featuregate.Alpha}, `
		CPUCFSQuotaPeriod CPUManagerPolicyAlphaOptions CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook
		CompositePodGroup ContainerStopSignals CrossNamespaceVolumeDataSource DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaintRules DRADeviceTaints DRAExtendedResource
		DRAPartitionableDevices EventedPLEG GangScheduling GenericWorkload HPAScaleToZero ImageVolumeWithDigest InPlacePodLevelResourcesVerticalScaling InPlacePodVerticalScalingExclusiveCPUs
		InPlacePodVerticalScalingExclusiveMemory InTreePluginPortworxUnregister KubeletInUserNamespace MemoryQoS MutablePVNodeAffinity MutablePodResourcesForSuspendedJobs
		MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures PodAndContainerStatsFromCRI PodLogsQuerySplitStreams QOSReserved ReduceDefaultCrashLoopBackOffDecay RelaxedServiceNameValidation
		ResourceHealthStatus RestartAllContainersOnContainerExits RuntimeClassInImageCriAPI StorageCapacityScoring StrictIPCIDRValidation TaintTolerationComparisonOperators
		TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport VolumeLimitScaling WindowsCPUAndMemoryAffinity`},
	{featuregate.FeatureSpec{LockToDefault: true, PreRelease: featuregate.Deprecated}, `AllowOverwriteTerminationGracePeriodSeconds AllowServiceLBStatusOnNonLB`},
	{featuregate.FeatureSpec{Default: true, PreRelease: featuregate.Deprecated}, `DisableNodeKubeProxyVersion KubeletPodResourcesListUseActivePods`},
	{featuregate.FeatureSpec{PreRelease: featuregate.Deprecated}, `
		AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart GitRepoVolumeDriver InPlacePodVerticalScalingAllocatedStatus
		KubeletRegistrationGetOnExistsOnly WindowsHostNetwork`},
}

// Gates is --feature-gates. Features are what they are by default in Kubernetes 1.37: setting one so is accepted, unknown and locked ones are
// refused in upstream's words, and others are refused because there is no such switch.
type Gates struct{ given []string }

// Add defines the flag.
func (g *Gates) Add(flags *pflag.FlagSet) {
	flags.Var(g, "feature-gates", "NAME=true|false,...: features of Kubernetes; each may be set to what it is by default")
}

// String, Type and Set make it a pflag.Value.
func (g *Gates) String() string { return strings.Join(g.given, ",") }
func (g *Gates) Type() string   { return "mapStringBool" }

// Set reads NAME=true,NAME=false. A later flag adds to an earlier one.
func (g *Gates) Set(text string) error {
	known, err := newGate()
	if err != nil {
		return err
	}
	usual := known.GetAll()
	if err := known.Set(text); err != nil {
		return err
	}
	if errs := known.Validate(); len(errs) > 0 {
		return errors.Join(errs...)
	}
	var refused []string
	for pair := range strings.SplitSeq(text, ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if name == "" {
			continue
		}
		key := featuregate.Feature(strings.TrimSpace(name))
		if on := known.Enabled(key); on != usual[key].Default {
			refused = append(refused, fmt.Sprintf("%s=%t", name, on))
		}
	}
	if len(refused) > 0 {
		slices.Sort(refused)
		return fmt.Errorf("%s: features are what they are by default here", strings.Join(refused, ", "))
	}
	g.given = append(g.given, text)
	return nil
}

// newGate is a gate that knows all features.
func newGate() (featuregate.MutableVersionedFeatureGate, error) {
	known := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	have, more := known.GetAll(), map[featuregate.Feature]featuregate.FeatureSpec{}
	for _, row := range gates {
		for name := range strings.FieldsSeq(row.names) {
			if _, ok := have[featuregate.Feature(name)]; !ok {
				more[featuregate.Feature(name)] = row.spec
			}
		}
	}
	errs := []error{known.Add(more)}
	for _, add := range []func(featuregate.MutableVersionedFeatureGate) error{logsapi.AddFeatureGates, metricsfeatures.AddFeatureGates, zpagesfeatures.AddFeatureGates} {
		errs = append(errs, add(known)) // those that every component has
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("feature gates: %w", err)
	}
	return known, nil
}
