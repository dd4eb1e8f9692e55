package volumes

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Plugin makes the volumes of one type. The types of this package are emptydir.go, hostpath.go, content.go (configMap, secret,
// downwardAPI, projected), local.go, nfs.go; others are handed in by Config.Plugins, which are asked first.
//
// To add one: implement Plugin, and look at
//
//   - v.PV, which is set when the volume is a claim's; v.Spec is what the pod says;
//   - v.Dir, which SetUp makes and TearDown removes, and which belongs to this plug-in, this pod and this volume alone. It does not
//     exist before the first SetUp. State that TearDown needs after a restart belongs there, or in a place that Place.Dir tells;
//   - SetOwnership, which plug-ins call for volumes that fsGroup is for;
//   - package mount, for mounts without other programs.
//
// What several pods share on this node (a staged device) is the plug-in's own business, keyed by what v.PV says and undone by the
// last TearDown. A plug-in that needs to run beside does it in its own Run.
//
// Methods may be called for different volumes at once, never for the same place.
type Plugin interface {
	// Name is upstream's: "kubernetes.io/csi".
	Name() string
	// Supports says whether SetUp is for v. Spec and PV are set, Dir is not yet.
	Supports(v *Volume) bool
	// SetUp makes the volume, or finds it made, or brings its contents up to date. It is called until it succeeds (with growing
	// pauses), then when Mounted says so, and once after the kubelet has been restarted, when containers may be using the volume:
	// what is there then must stay.
	//
	// Its error is shown in the event FailedMount behind "MountVolume.SetUp failed for volume ...: "; a *StepError names another
	// step. It should return soon after ctx has ended, and not wait for long: waiting is done by failing.
	SetUp(ctx context.Context, v *Volume) (Mounted, error)
	// TearDown undoes SetUp, however far that came and whoever did it. When it returns nil there is no Place.Dir any more. It is
	// repeated until it succeeds.
	TearDown(ctx context.Context, p Place) error
}

// Volume is a volume of a pod that is to be made.
type Volume struct {
	Pod  *corev1.Pod
	Spec *corev1.Volume // what the pod says

	Claim *corev1.PersistentVolumeClaim // nil: the volume is no claim's
	PV    *corev1.PersistentVolume      // what Claim is bound to; its claimRef is checked, and its node affinity
	// ReadOnly says that the pod's claim source wants the volume mounted read-only.
	ReadOnly bool
	// Block says that containers want the device (volumeDevices), not a file system.
	Block bool
	// Room is how many bytes contents from objects may have: what is left by the pod's other volumes.
	Room int

	Place
}

// Place is where a volume is. It can be told from the disk alone.
type Place struct {
	PodUID types.UID
	Plugin string // "kubernetes.io/csi"
	Name   string // of the PersistentVolume, or the pod's name for the volume
	// Dir is pods/UID/volumes/PLUGIN/Name below the root directory, for Block pods/UID/volumeDevices/PLUGIN/Name.
	Dir     string
	IsBlock bool // Dir is below volumeDevices
}

// FSGroup is the group that the pod's files are to belong to; nil for none.
func (v *Volume) FSGroup() *int64 {
	if v.Pod.Spec.SecurityContext == nil {
		return nil
	}
	return v.Pod.Spec.SecurityContext.FSGroup
}

// FSGroupChangePolicy says whether ownership is always changed; nil means Always.
func (v *Volume) FSGroupChangePolicy() *corev1.PodFSGroupChangePolicy {
	if v.Pod.Spec.SecurityContext == nil {
		return nil
	}
	return v.Pod.Spec.SecurityContext.FSGroupChangePolicy
}

// specName names the volume in errors, as upstream does.
func (v *Volume) specName() string {
	if v.PV != nil {
		return v.PV.Name
	}
	return v.Spec.Name
}

// Mounted is what SetUp has made.
type Mounted struct {
	// Path is what containers' mounts start from; "" means the volume's Dir.
	Path string
	// ReadOnly says that containers cannot write to the volume, whatever their volumeMounts say.
	ReadOnly bool
	// Device is the device file of a Block volume.
	Device string
	// Contents is how many bytes there are of objects in the volume, each file counted.
	Contents int
	// Live says that the contents come from what the pod's labels and annotations say and from objects: SetUp is called again
	// when one of them changes.
	Live bool
	// Again, when not zero, is when SetUp should be called again in any case.
	Again time.Time
	// Own says that what is written to the volume counts as the pod's own use of local storage: Usage measures it by what the files
	// take, not by what the file system says.
	Own bool
}

// StepError is an error of SetUp in another step than "MountVolume.SetUp": "MountVolume.MountDevice", "AttachVolume.Attach",
// "MapVolume.MapPodDevice" ... (upstream's volume/util/operationexecutor).
type StepError struct {
	Step string
	Err  error
}

func (e *StepError) Error() string { return e.Step + " failed: " + e.Err.Error() }

func (e *StepError) Unwrap() error { return e.Err }

// failed is how upstream shows an error of SetUp.
func failed(v *Volume, err error) string {
	step := "MountVolume.SetUp"
	if v.Block {
		step = "MapVolume.SetUpDevice"
	}
	if s, ok := err.(*StepError); ok {
		step, err = s.Step, s.Err
	}
	return fmt.Sprintf("%s failed for volume %q : %v", step, v.specName(), err)
}
