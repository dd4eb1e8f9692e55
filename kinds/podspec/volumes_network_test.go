package podspec

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestValidatePod_NetworkVolumes(t *testing.T) {
	const hostPort = "must be a host:port pair or multiple pairs separated by commas"
	for _, tc := range []struct {
		volume string
		want   []string // below spec.volumes[0]
	}{
		{`gitRepo: {repository: "", directory: ../x}`, []string{"gitRepo.repository: Required value", `gitRepo.directory: Invalid value: "../x": must not contain '..'`}},
		{`gcePersistentDisk: {pdName: "", partition: 256}`, []string{"persistentDisk.pdName: Required value", "persistentDisk.partition: Invalid value: 256: must be between 1 and 255, inclusive"}},
		{`awsElasticBlockStore: {volumeID: "", partition: -1}`, []string{"awsElasticBlockStore.volumeID: Required value", "awsElasticBlockStore.partition: Invalid value: -1: must be between 1 and 255, inclusive"}},
		{`nfs: {server: "", path: x}`, []string{"nfs.server: Required value", `nfs.path: Invalid value: "x": must be an absolute path`}},
		{`glusterfs: {endpoints: "", path: ""}`, []string{"glusterfs.endpoints: Required value", "glusterfs.path: Required value"}},
		{`flocker: {}`, []string{"flocker: Required value: one of datasetName and datasetUUID is required"}},
		{`flocker: {datasetName: a/b, datasetUUID: c}`, []string{
			`flocker: Invalid value: "resource": datasetName and datasetUUID can not be specified simultaneously`, `flocker.datasetName: Invalid value: "a/b": must not contain '/'`}},
		{`rbd: {monitors: [], image: ""}`, []string{"rbd.monitors: Required value", "rbd.image: Required value"}},
		{`cinder: {volumeID: "", secretRef: {name: ""}}`, []string{"cinder.volumeID: Required value", "cinder.secretRef.name: Required value"}},
		{`cephfs: {monitors: []}`, []string{"cephfs.monitors: Required value"}},
		{`quobyte: {registry: "", volume: ""}`, []string{"quobyte.registry: Required value: " + hostPort, "quobyte.volume: Required value"}},
		{`quobyte: {registry: "a:1,b", volume: v}`, []string{`quobyte.registry: Invalid value: "a:1,b": ` + hostPort}},
		{`quobyte: {registry: "a:1", volume: v, tenant: ` + strings.Repeat("x", 65) + `}`, []string{"quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 characters"}},
		{`fc: {}`, []string{"fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"}},
		{`fc: {targetWWNs: [a], wwids: [b]}`, []string{
			`fc.targetWWNs: Invalid value: ["a"]: targetWWNs and wwids can not be specified simultaneously`, "fc.lun: Required value: lun is required if targetWWNs is specified"}},
		{`fc: {targetWWNs: [a], lun: 256}`, []string{"fc.lun: Invalid value: 256: must be between 0 and 255, inclusive"}},
		{`flexVolume: {driver: "", options: {a.kubernetes.io/b: c}}`, []string{
			"flexVolume.driver: Required value", `flexVolume.options[a.kubernetes.io/b]: Invalid value: "a.kubernetes.io/b": kubernetes.io and k8s.io namespaces are reserved`}},
		{`azureFile: {secretName: "", shareName: ""}`, []string{"azureFile.secretName: Required value", "azureFile.shareName: Required value"}},
		{`vsphereVolume: {volumePath: ""}`, []string{"vsphereVolume.volumePath: Required value"}},
		{`photonPersistentDisk: {pdID: ""}`, []string{"photonPersistentDisk.pdID: Required value"}},
		{`portworxVolume: {volumeID: ""}`, []string{"portworxVolume.volumeID: Required value"}},
		{`azureDisk: {diskName: "", diskURI: "", cachingMode: Some, kind: Odd}`, []string{
			"azureDisk.diskName: Required value", "azureDisk.diskURI: Required value",
			`azureDisk.cachingMode: Unsupported value: "Some": supported values: "None", "ReadOnly", "ReadWrite"`,
			`azureDisk.kind: Unsupported value: "Odd": supported values: "Dedicated", "Managed", "Shared"`,
			`azureDisk.diskURI: Unsupported value: "": supported values: "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"`}},
		{`azureDisk: {diskName: d, diskURI: "https://x", kind: Managed}`, []string{
			`azureDisk.diskURI: Unsupported value: "https://x": supported values: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"`}},
		{`storageos: {volumeNamespace: B}`, []string{"storageos.volumeName: Required value", `storageos.volumeNamespace: Invalid value: "B"` + dnsLabel}},
		{`storageos: {volumeName: A, secretRef: {name: ""}}`, []string{`storageos.volumeName: Invalid value: "A"` + dnsLabel, "storageos.secretRef.name: Required value"}},
		{`scaleIO: {gateway: "", system: "", secretRef: null}`, []string{"scaleIO.gateway: Required value", "scaleIO.system: Required value", "scaleIO.volumeName: Required value"}},
		{`iscsi: {targetPortal: "", iqn: "", lun: 256, chapAuthSession: true}`, []string{
			"iscsi.targetPortal: Required value", "iscsi.iqn: Required value", "iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive", "iscsi.secretRef: Required value"}},
		{`iscsi: {targetPortal: "1.2.3.4", iqn: nope, lun: 0, initiatorName: iqn.x}`, []string{
			`iscsi.iqn: Invalid value: "nope": must be valid format starting with iqn, eui, or naa`, `iscsi.initiatorname: Invalid value: "iqn.x": must be valid format`}},
		{`iscsi: {targetPortal: "` + strings.Repeat("1", 63) + `", iqn: "eui.0123456789abcdef", lun: 0, initiatorName: "iqn.2015-02.example.com:x"}`, []string{
			`name: Invalid value: "v": Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.`}},
		{`csi: {driver: "a_b", nodePublishSecretRef: {name: ""}}`, []string{`csi.driver: Invalid value: "a_b"` + dnsSubdomain, "csi.nodePublishSecretRef.name: Required value"}},
		{`csi: {driver: d, nodePublishSecretRef: {name: A}}`, []string{`csi.name: Invalid value: "A"` + dnsSubdomain}},
		{`projected: {sources: [{clusterTrustBundle: {path: a}}, {clusterTrustBundle: {name: "A:B", labelSelector: {}, path: b}}, {clusterTrustBundle: {signerName: x, path: c}}, {clusterTrustBundle: {name: nn, signerName: example.com/s, path: d}}]}`, []string{
			"projected.sources[0].clusterTrustBundle: Required value: either name or signerName must be specified",
			`projected.sources[1].clusterTrustBundle.name: Invalid value: "A:B": not a valid clustertrustbundlename` + dnsSubdomain,
			"projected.sources[1].clusterTrustBundle.labelSelector: Invalid value: {}: labelSelector must be unset if name is specified",
			`projected.sources[2].clusterTrustBundle.signerName: Invalid value: "x": must be a fully qualified domain and path of the form 'example.com/signer-name'`,
			`projected.sources[3].clusterTrustBundle: Invalid value: {"name":"nn","signerName":"example.com/s","path":"d"}: only one of name and signerName may be used`}},
	} {
		t.Run(tc.volume[:min(40, len(tc.volume))], func(t *testing.T) {
			var want []string
			for _, text := range tc.want {
				want = append(want, "spec.volumes[0]."+text)
			}
			pod := newPod(t, "volumes: [{name: v, "+tc.volume+"}]", "")
			if diff := cmp.Diff(want, texts(ValidatePod(pod, Options{}))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
