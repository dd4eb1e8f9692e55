package podspec

var volumeRules = []rule{
	{"many sources", `
serviceAccountName: sa
volumes:
- {name: a}
- {name: b, hostPath: {path: /x, type: Directory}}
- {name: c, secret: {secretName: s, items: [{key: k, path: p, mode: 0400}]}}
- {name: d, configMap: {name: m}}
- {name: e, downwardAPI: {items: [{path: l, fieldRef: {fieldPath: metadata.labels}}]}}
- {name: f, csi: {driver: x.example.com}}
- {name: g, nfs: {server: s, path: /p}}
- {name: h, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}
- {name: i, image: {reference: r}}
- {name: j, projected: {sources: [{serviceAccountToken: {path: token}}, {configMap: {name: m, items: [{key: ca, path: ca}]}}]}}`, ``, nil},
	{"name", `volumes: [{name: A}]`, ``, []string{`spec.volumes[0].name: Invalid value: "A"` + dnsLabel}},
	{"name missing", `volumes: [{emptyDir: {}}]`, ``, []string{`spec.volumes[0].name: Required value`}},
	{"names", `volumes: [{name: a}, {name: a}]`, ``, []string{`spec.volumes[1].name: Duplicate value: "a"`}},
	{"two sources", `volumes: [{name: a, emptyDir: {}, hostPath: {path: /x}}]`, ``,
		[]string{`spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type`}},
	{"negative size limit", `volumes: [{name: a, emptyDir: {sizeLimit: -1}}]`, ``,
		[]string{`spec.volumes[0].emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid resource quantity`}},
	{"host path missing", `volumes: [{name: a, hostPath: {}}]`, ``, []string{`spec.volumes[0].hostPath.path: Required value`}},
	{"host path that climbs", `volumes: [{name: a, hostPath: {path: /a/../b}}]`, ``,
		[]string{`spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain '..'`}},
	{"host path type", `volumes: [{name: a, hostPath: {path: /a, type: Dir}}]`, ``,
		[]string{`spec.volumes[0].hostPath.type: Unsupported value: "Dir": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"`}},
	{"secret name missing", `volumes: [{name: a, secret: {}}]`, ``, []string{`spec.volumes[0].secret.secretName: Required value`}},
	{"config map name missing", `volumes: [{name: a, configMap: {}}]`, ``, []string{`spec.volumes[0].configMap.name: Required value`}},
	{"mode", `volumes: [{name: a, secret: {secretName: s, defaultMode: 512}}]`, ``,
		[]string{`spec.volumes[0].secret.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive`}},
	{"item path", `volumes: [{name: a, secret: {secretName: s, items: [{key: k, path: ..x}]}}]`, ``,
		[]string{`spec.volumes[0].secret.items[0].path: Invalid value: "..x": must not start with '..'`}},
	{"item key", `volumes: [{name: a, secret: {secretName: s, items: [{path: x}]}}]`, ``, []string{`spec.volumes[0].secret.items[0].key: Required value`}},
	{"claim name", `volumes: [{name: a, persistentVolumeClaim: {}}]`, ``, []string{`spec.volumes[0].persistentVolumeClaim.claimName: Required value`}},
	{"claim made for the pod", `
volumes:
- {name: a, persistentVolumeClaim: {claimName: p-e}}
- {name: e, ephemeral: {volumeClaimTemplate: {spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}}}`, ``,
		[]string{`spec.volumes[0].persistentVolumeClaim.claimName: Invalid value: "p-e": must not reference a PVC that gets created for an ephemeral volume`}},
	{"nfs", `volumes: [{name: a, nfs: {server: s, path: p}}]`, ``, []string{`spec.volumes[0].nfs.path: Invalid value: "p": must be an absolute path`}},
	{"csi driver", `volumes: [{name: a, csi: {}}]`, ``, []string{`spec.volumes[0].csi.driver: Required value`, `spec.volumes[0].csi.driver: Invalid value: ""` + dnsSubdomain}},
	{"downward field", `volumes: [{name: a, downwardAPI: {items: [{path: x, fieldRef: {fieldPath: spec.nodeName}}]}}]`, ``,
		[]string{`spec.volumes[0].downwardAPI.fieldRef.fieldPath: Unsupported value: "spec.nodeName": supported values: "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"`}},
	{"downward resource without container", `volumes: [{name: a, downwardAPI: {items: [{path: x, resourceFieldRef: {resource: limits.cpu}}]}}]`, ``,
		[]string{`spec.volumes[0].downwardAPI.resourceFieldRef.containerName: Required value`}},
	{"claim template", `volumes: [{name: a, ephemeral: {volumeClaimTemplate: {metadata: {name: x}, spec: {}}}}]`, ``, []string{
		`spec.volumes[0].ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set`,
		`spec.volumes[0].ephemeral.volumeClaimTemplate.spec.accessModes: Required value: at least 1 access mode is required`,
		`spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources[storage]: Required value`,
	}},
	{"token without account", `volumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: t}}]}}]`, ``,
		[]string{`spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set`}},
	{"token life", "serviceAccountName: sa\nvolumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: t, expirationSeconds: 599}}]}}]", ``,
		[]string{`spec.volumes[0].projected.sources[0].serviceAccountToken.expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes`}},
	{"token path", "serviceAccountName: sa\nvolumes: [{name: a, projected: {sources: [{serviceAccountToken: {}}]}}]", ``,
		[]string{`spec.volumes[0].projected.path: Required value`}},
	{"two kinds in a source", `volumes: [{name: a, projected: {sources: [{secret: {name: s}, configMap: {name: m}}]}}]`, ``,
		[]string{`spec.volumes[0].projected.sources[0]: Forbidden: may not specify more than 1 volume type per source`}},
	{"files on one another", `volumes: [{name: a, projected: {sources: [{secret: {name: s, items: [{key: k, path: p}]}}, {configMap: {name: m, items: [{key: k, path: p}]}}]}}]`, ``,
		[]string{`spec.volumes[0].projected: Invalid value: "m": conflicting duplicate paths`}},
	{"certificate", `volumes: [{name: a, projected: {sources: [{podCertificate: {signerName: example.com/s, keyType: RSA1024, keyPath: k}}]}}]`, ``,
		[]string{`spec.volumes[0].projected.sources[0].podCertificate.keyType: Unsupported value: "RSA1024": supported values: "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519", "RSA3072", "RSA4096"`}},
	{"trust bundle", `volumes: [{name: a, projected: {sources: [{clusterTrustBundle: {path: p}}]}}]`, ``,
		[]string{`spec.volumes[0].projected.sources[0].clusterTrustBundle: Required value: either name or signerName must be specified`}},
	{"iscsi", `volumes: [{name: a, iscsi: {targetPortal: t, iqn: foo, lun: 256}}]`, ``, []string{
		`spec.volumes[0].iscsi.iqn: Invalid value: "foo": must be valid format starting with iqn, eui, or naa`,
		`spec.volumes[0].iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive`,
	}},
}

var resourceRules = []rule{
	{"requests and limits", ``, `resources: {limits: {cpu: 1, memory: 1Gi, example.com/x: 1}, requests: {cpu: 100m}}`, nil},
	{"unknown name", ``, `resources: {limits: {disk: 1}}`, []string{
		`spec.containers[0].resources.limits[disk]: Invalid value: "disk": must be a standard resource type or fully qualified`,
		`spec.containers[0].resources.limits[disk]: Invalid value: "disk": must be a standard resource for containers`,
		`spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource type or fully qualified`,
		`spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource for containers`,
	}},
	{"name for quotas", ``, `resources: {requests: {pods: 1}}`,
		[]string{`spec.containers[0].resources.requests[pods]: Invalid value: "pods": must be a standard resource for containers`}},
	{"negative", ``, `resources: {requests: {cpu: -1}}`,
		[]string{`spec.containers[0].resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0`}},
	{"request over limit", ``, `resources: {limits: {cpu: 100m}, requests: {cpu: 200m}}`,
		[]string{`spec.containers[0].resources.requests: Invalid value: "200m": must be less than or equal to cpu limit of 100m`}},
	{"extended request differs", ``, `resources: {limits: {example.com/x: 2}, requests: {example.com/x: 1}}`,
		[]string{`spec.containers[0].resources.requests: Invalid value: "1": must be equal to example.com/x limit of 2`}},
	{"extended request without limit", ``, `resources: {requests: {example.com/x: 1}}`,
		[]string{`spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources`}},
	{"fraction of a device", ``, `resources: {limits: {example.com/x: 500m}}`, []string{
		`spec.containers[0].resources.limits[example.com/x]: Invalid value: "500m": must be an integer`,
		`spec.containers[0].resources.requests[example.com/x]: Invalid value: "500m": must be an integer`,
	}},
	{"huge pages alone", ``, `resources: {limits: {hugepages-2Mi: 2Mi}}`,
		[]string{`spec.containers[0].resources: Forbidden: HugePages require cpu or memory`}},
	{"part of a huge page", ``, `resources: {limits: {cpu: 1, hugepages-2Mi: 3Mi}}`, []string{
		`spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi`,
		`spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi`,
	}},
	{"claim unknown", ``, `resources: {claims: [{name: gpu}]}`,
		[]string{`spec.containers[0].resources.claims[0]: Not found: "gpu": must be one of the names in pod.spec.resourceClaims which is empty`}},
	{"claim", `resourceClaims: [{name: gpu, resourceClaimName: x}]`, `resources: {claims: [{name: gpu, request: a}, {name: gpu, request: b}]}`, nil},
	{"claim and its request", `resourceClaims: [{name: gpu, resourceClaimName: x}]`, `resources: {claims: [{name: gpu, request: a}, {name: gpu}]}`,
		[]string{`spec.containers[0].resources.claims[1]: Duplicate value: "gpu"`}},
	{"claim without source", `resourceClaims: [{name: gpu}]`, ``,
		[]string{"spec.resourceClaims[0]: Invalid value: {\"name\":\"gpu\"}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"}},
	{"resize policy", ``, `resizePolicy: [{resourceName: disk, restartPolicy: NotRequired}]`,
		[]string{`spec.containers[0].resizePolicy: Unsupported value: "disk": supported values: "cpu", "memory"`}},
	{"resize policy of a pod that never restarts", `restartPolicy: Never`, `resizePolicy: [{resourceName: cpu, restartPolicy: RestartContainer}]`,
		[]string{"spec.containers[0].resizePolicy: Invalid value: \"RestartContainer\": must be 'NotRequired' when `restartPolicy` is 'Never'"}},
	{"containers over pod", `resources: {requests: {cpu: 100m}, limits: {cpu: 200m}}`, `resources: {requests: {cpu: 150m}, limits: {cpu: 300m}}`, []string{
		`spec.resources.requests[cpu]: Invalid value: "100m": must be greater than or equal to aggregate container requests of 150m`,
		`spec.resources.containers[0][cpu].limits: Invalid value: "300m": must be less than or equal to pod limits of 200m`,
	}},
	{"pod-level resource", `resources: {limits: {example.com/x: 1}}`, ``,
		[]string{`spec.resources.limits[example.com/x]: Unsupported value: "example.com/x": supported values: "cpu", "hugepages-", "memory"`}},
	{"overhead", `overhead: {disk: 1}`, ``, []string{
		`spec.overhead.limits[disk]: Invalid value: "disk": must be a standard resource type or fully qualified`,
		`spec.overhead.limits[disk]: Invalid value: "disk": must be a standard resource for containers`,
	}},
}

var schedulingRules = []rule{
	{"everything", `
nodeSelector: {a: b}
affinity:
  nodeAffinity:
    requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b]}], matchFields: [{key: metadata.name, operator: In, values: [n]}]}]}
    preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchExpressions: [{key: a, operator: Gt, values: ["1"]}]}}]
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution: [{weight: 100, podAffinityTerm: {labelSelector: {}, topologyKey: kubernetes.io/hostname}}]
tolerations: [{operator: Exists}, {key: a, value: b, effect: NoExecute, tolerationSeconds: 5}]
topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}, minDomains: 2}]
schedulingGates: [{name: example.com/g}]
readinessGates: [{conditionType: example.com/c}]`, ``, nil},
	{"no terms", `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: []}}}`, ``,
		[]string{`spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term`}},
	{"In without values", `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In}]}]}}}`, ``,
		[]string{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"}},
	{"Exists with values", `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Exists, values: [b]}]}]}}}`, ``,
		[]string{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'"}},
	{"Gt with two values", `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Gt, values: ["1", "2"]}]}]}}}`, ``,
		[]string{"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'"}},
	{"operator", `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: a, operator: Is}]}]}}}`, ``,
		[]string{`spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator`}},
	{"field", `affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: spec.x, operator: In, values: [b]}]}]}}}`, ``,
		[]string{`spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchFields[0].key: Invalid value: "spec.x": not a valid field selector key`}},
	{"weight", `affinity: {podAffinity: {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 101, podAffinityTerm: {topologyKey: z}}]}}`, ``,
		[]string{`spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100`}},
	{"topology key", `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{labelSelector: {}}]}}`, ``, []string{
		`spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Required value: can not be empty`,
		`spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": name part must be non-empty`,
		`spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')`,
	}},
	{"match label keys without selector", `affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z, matchLabelKeys: [app]}]}}`, ``,
		[]string{`spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set`}},
	{"empty key without Exists", `tolerations: [{value: a}]`, ``,
		[]string{"spec.tolerations[0].operator: Invalid value: \"\": operator must be Exists when `key` is empty, which means \"match all values and all keys\""}},
	{"value with Exists", `tolerations: [{key: a, operator: Exists, value: b}]`, ``,
		[]string{"spec.tolerations[0].operator: Invalid value: \"b\": value must be empty when `operator` is 'Exists'"}},
	{"effect", `tolerations: [{key: a, effect: NoRun}]`, ``,
		[]string{`spec.tolerations[0].effect: Unsupported value: "NoRun": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"`}},
	{"seconds without NoExecute", `tolerations: [{key: a, effect: NoSchedule, tolerationSeconds: 5}]`, ``,
		[]string{"spec.tolerations[0].effect: Invalid value: \"NoSchedule\": effect must be 'NoExecute' when `tolerationSeconds` is set"}},
	{"spread", `topologySpreadConstraints: [{maxSkew: 0, whenUnsatisfiable: Maybe, labelSelector: {}}]`, ``, []string{
		`spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero`,
		`spec.topologySpreadConstraints[0].topologyKey: Required value: can not be empty`,
		`spec.topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Maybe": supported values: "DoNotSchedule", "ScheduleAnyway"`,
	}},
	{"spread twice", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}, {maxSkew: 2, topologyKey: z, whenUnsatisfiable: DoNotSchedule, labelSelector: {}}]`, ``,
		[]string{`spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, DoNotSchedule}"`}},
	{"min domains", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}, minDomains: 2}]`, ``,
		[]string{`spec.topologySpreadConstraints[0].minDomains: Invalid value: 2: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway`}},
	{"inclusion policy", `topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: ScheduleAnyway, labelSelector: {}, nodeTaintsPolicy: Obey}]`, ``,
		[]string{`spec.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: "Obey": supported values: "Honor", "Ignore"`}},
	{"gates", `schedulingGates: [{name: a}, {name: a}]`, ``, []string{`spec.schedulingGates[1]: Duplicate value: "a"`}},
	{"names", "nodeName: A\nserviceAccountName: B\npriorityClassName: C\nruntimeClassName: D", ``, []string{
		`spec.serviceAccountName: Invalid value: "B"` + dnsSubdomain,
		`spec.nodeName: Invalid value: "A"` + dnsSubdomain,
		`spec.priorityClassName: Invalid value: "C"` + dnsSubdomain,
		`spec.runtimeClassName: Invalid value: "D"` + dnsSubdomain,
	}},
	{"preemption policy", `preemptionPolicy: Sometimes`, ``,
		[]string{`spec.preemptionPolicy: Unsupported value: "Sometimes": supported values: "PreemptLowerPriority", "Never"`}},
	{"deadline", `activeDeadlineSeconds: 0`, ``, []string{`spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive`}},
}

var securityRules = []rule{
	{"user and groups", `securityContext: {runAsUser: -1, runAsGroup: -2, fsGroup: 2147483648, supplementalGroups: [-3]}`, ``, []string{
		`spec.securityContext.fsGroup: Invalid value: 2147483648: must be between 0 and 2147483647, inclusive`,
		`spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive`,
		`spec.securityContext.runAsGroup: Invalid value: -2: must be between 0 and 2147483647, inclusive`,
		`spec.securityContext.supplementalGroups[0]: Invalid value: -3: must be between 0 and 2147483647, inclusive`,
	}},
	{"privileged without escalation", ``, `securityContext: {privileged: true, allowPrivilegeEscalation: false}`,
		[]string{"spec.containers[0].securityContext: Invalid value: {\"privileged\":true,\"allowPrivilegeEscalation\":false}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true"}},
	{"unmasked proc", ``, `securityContext: {procMount: Unmasked}`,
		[]string{"spec.containers[0].securityContext.procMount: Invalid value: \"Unmasked\": `hostUsers` must be false to use `Unmasked`"}},
	{"unmasked proc with its own users", `hostUsers: false`, `securityContext: {procMount: Unmasked}`, nil},
	{"user namespace on the host's network", "hostUsers: false\nhostNetwork: true", ``,
		[]string{"spec.hostNetwork: Forbidden: when `pod.Spec.HostUsers` is false"}},
	{"shared processes", "hostPID: true\nshareProcessNamespace: true", ``,
		[]string{`spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled`}},
	{"seccomp", `securityContext: {seccompProfile: {type: Localhost}}`, ``,
		[]string{`spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost`}},
	{"seccomp type", `securityContext: {seccompProfile: {type: Host}}`, ``,
		[]string{`spec.securityContext.seccompProfile.type: Unsupported value: "Host": supported values: "Localhost", "RuntimeDefault", "Unconfined"`}},
	{"apparmor", ``, `securityContext: {appArmorProfile: {type: Localhost, localhostProfile: " x"}}`,
		[]string{`spec.containers[0].securityContext.appArmorProfile.localhostProfile: Invalid value: " x": must not be padded with whitespace`}},
	{"sysctl", `securityContext: {sysctls: [{name: A, value: x}, {name: a.b, value: x}, {name: a.b, value: y}]}`, ``, []string{
		`spec.securityContext.sysctls[0].name: Invalid value: "A": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$`,
		`spec.securityContext.sysctls[2].name: Duplicate value: "a.b"`,
	}},
	{"sysctl of the host", "hostNetwork: true\nsecurityContext: {sysctls: [{name: net.core.somaxconn, value: x}]}", ``,
		[]string{`spec.securityContext.sysctls[0].name: Invalid value: "net.core.somaxconn": may not be specified when 'hostNetwork' is true`}},
	{"fsGroup change policy", `securityContext: {fsGroupChangePolicy: Never}`, ``,
		[]string{`spec.securityContext.fsGroupChangePolicy: Unsupported value: "Never": supported values: "Always", "OnRootMismatch"`}},
	{"os", `os: {name: plan9}`, ``, []string{`spec.os: Unsupported value: "plan9": supported values: "linux", "windows"`}},
	{"linux fields for windows", "os: {name: windows}\nhostPID: true\nsecurityContext: {fsGroup: 1}", `securityContext: {privileged: true}`, []string{
		`spec.hostPID: Forbidden: cannot be set for a windows pod`,
		`spec.securityContext.fsGroup: Forbidden: cannot be set for a windows pod`,
		`spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod`,
	}},
	{"windows fields for linux", "os: {name: linux}\nsecurityContext: {windowsOptions: {runAsUserName: x}}", ``,
		[]string{`spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod`}},
	{"host process", `securityContext: {windowsOptions: {hostProcess: true}}`, ``,
		[]string{`spec.hostNetwork: Invalid value: false: hostNetwork must be true if pod contains any hostProcess containers`}},
	{"windows user", `securityContext: {windowsOptions: {runAsUserName: 'a\b\c'}}`, ``,
		[]string{`spec.securityContext.windowsOptions.runAsUserName: Invalid value: "a\\b\\c": runAsUserName cannot contain more than one backslash`}},
}

var hostRules = []rule{
	{"dns", "dnsPolicy: None\ndnsConfig: {nameservers: [10.0.0.10], searches: [a.b, .], options: [{name: ndots, value: '5'}]}", ``, nil},
	{"dns policy", `dnsPolicy: Cluster`, ``,
		[]string{`spec.dnsPolicy: Unsupported value: "Cluster": supported values: "ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"`}},
	{"no dns config", `dnsPolicy: None`, ``, []string{"spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"}},
	{"no nameserver", "dnsPolicy: None\ndnsConfig: {}", ``, []string{"spec.dnsConfig.nameservers: Required value: must provide at least one DNS nameserver when `dnsPolicy` is None"}},
	{"four nameservers", `dnsConfig: {nameservers: [1.1.1.1, 1.1.1.2, 1.1.1.3, 1.1.1.4]}`, ``,
		[]string{`spec.dnsConfig.nameservers: Invalid value: ["1.1.1.1","1.1.1.2","1.1.1.3","1.1.1.4"]: must not have more than 3 nameservers`}},
	{"nameserver", `dnsConfig: {nameservers: [one]}`, ``,
		[]string{`spec.dnsConfig.nameservers[0]: Invalid value: "one": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`}},
	{"dns option", `dnsConfig: {options: [{value: x}]}`, ``, []string{`spec.dnsConfig.options[0]: Required value: must not be empty`}},
	{"host alias", `hostAliases: [{ip: 1.2.3, hostnames: [a_b]}]`, ``, []string{
		`spec.hostAliases[0].ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)`,
		`spec.hostAliases[0].hostnames[0]: Invalid value: "a_b"` + dnsSubdomain,
	}},
	{"hostname", "hostname: A\nsubdomain: B", ``, []string{
		`spec.hostname: Invalid value: "A"` + dnsLabel,
		`spec.subdomain: Invalid value: "B"` + dnsLabel,
	}},
	{"hostname override", "hostnameOverride: a.b\nhostNetwork: true", ``,
		[]string{`spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true`}},
}
