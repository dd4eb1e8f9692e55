package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"vigil/kinds/podspec"
	"vigil/kinds/validate"
)

// deviceID names a device, or one share of it. It prints as upstream's does.
type deviceID struct{ driver, pool, device, share string }

func (id deviceID) String() string {
	text := id.driver + "/" + id.pool + "/" + id.device
	if id.share != "" {
		text += "/" + id.share
	}
	return text
}

func (id deviceID) withoutShare() deviceID {
	id.share = ""
	return id
}

// allocated are the devices that a claim has.
func allocated(status *resourcev1.ResourceClaimStatus) sets.Set[deviceID] {
	ids := sets.New[deviceID]()
	if status.Allocation == nil {
		return ids
	}
	for _, r := range status.Allocation.Devices.Results {
		id := deviceID{driver: r.Driver, pool: r.Pool, device: r.Device}
		if r.ShareID != nil {
			id.share = string(*r.ShareID)
		}
		ids.Insert(id)
	}
	return ids
}

func statusID(d *resourcev1.AllocatedDeviceStatus) deviceID {
	id := deviceID{driver: d.Driver, pool: d.Pool, device: d.Device}
	if d.ShareID != nil {
		id.share = *d.ShareID
	}
	return id
}

func validateClaimStatus(claim, old *resourcev1.ResourceClaim, path *field.Path) field.ErrorList {
	status, was := &claim.Status, &old.Status
	reserved := path.Child("reservedFor")
	errs := set(status.ReservedFor, resourcev1.ResourceClaimReservedForMaxSize, reserved,
		func(c *resourcev1.ResourceClaimConsumerReference) types.UID { return c.UID }, validateConsumer)
	has := allocated(status)
	errs = append(errs, set(status.Devices, unlimited, path.Child("devices"), statusID, func(d *resourcev1.AllocatedDeviceStatus, path *field.Path) field.ErrorList {
		return validateDeviceStatus(d, has, path)
	})...)
	switch {
	case len(status.ReservedFor) > 0 && status.Allocation == nil:
		errs = append(errs, field.Forbidden(reserved, "may not be specified when `allocated` is not set"))
	case claim.DeletionTimestamp != nil && len(sets.New(status.ReservedFor...).Difference(sets.New(was.ReservedFor...))) > 0:
		errs = append(errs, field.Forbidden(reserved, "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
	}
	switch {
	case status.Allocation != nil && was.Allocation != nil:
		errs = append(errs, validate.Immutable(status.Allocation, was.Allocation, path.Child("allocation"))...)
	case status.Allocation != nil:
		errs = append(errs, validateAllocation(status.Allocation, requestsOf(&claim.Spec.Devices), path.Child("allocation"))...)
	}
	return errs
}

func validateConsumer(c *resourcev1.ResourceClaimConsumerReference, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for _, member := range []struct{ name, value string }{{"resource", c.Resource}, {"name", c.Name}, {"uid", string(c.UID)}} {
		if member.value == "" {
			errs = append(errs, field.Required(path.Child(member.name), ""))
		}
	}
	return errs
}

// validateAllocation checks what the scheduler has chosen.
func validateAllocation(a *resourcev1.AllocationResult, names requests, path *field.Path) field.ErrorList {
	at := path.Child("devices")
	errs := each(a.Devices.Results, resourcev1.AllocationResultsMaxSize, at.Child("results"), func(r *resourcev1.DeviceRequestAllocationResult, path *field.Path) field.ErrorList {
		errs := names.validateRef(r.Request, path.Child("request"))
		errs = append(errs, podspec.CSIDriverName(r.Driver, path.Child("driver"))...)
		errs = append(errs, validatePoolName(r.Pool, path.Child("pool"))...)
		errs = append(errs, validateLabel(r.Device, path.Child("device"))...)
		errs = append(errs, validateBinding(r.BindingConditions, r.BindingFailureConditions, path)...)
		errs = append(errs, validateTolerations(r.Tolerations, path.Child("tolerations"))...)
		if r.ShareID != nil {
			errs = append(errs, validateUID(string(*r.ShareID), path.Child("shareID"))...)
		}
		return errs
	})
	// Of the class and of the claim.
	const limit = 2 * resourcev1.DeviceConfigMaxSize
	errs = append(errs, each(a.Devices.Config, limit, at.Child("config"), func(c *resourcev1.DeviceAllocationConfiguration, path *field.Path) field.ErrorList {
		errs := validate.OneOf(c.Source, path.Child("source"), resourcev1.AllocationConfigSourceClaim, resourcev1.AllocationConfigSourceClass)
		errs = append(errs, names.validateRefs(c.Requests, path.Child("requests"))...)
		return append(errs, validateConfiguration(&c.DeviceConfiguration, false, path)...)
	})...)
	if a.NodeSelector != nil {
		errs = append(errs, podspec.ValidateNodeSelector(a.NodeSelector, false, path.Child("nodeSelector"))...)
	}
	return errs
}

// validateDeviceStatus checks what a driver says of a device.
func validateDeviceStatus(d *resourcev1.AllocatedDeviceStatus, has sets.Set[deviceID], path *field.Path) field.ErrorList {
	errs := podspec.CSIDriverName(d.Driver, path.Child("driver"))
	errs = append(errs, validatePoolName(d.Pool, path.Child("pool"))...)
	errs = append(errs, validateLabel(d.Device, path.Child("device"))...)
	if d.ShareID != nil {
		errs = append(errs, validateUID(*d.ShareID, path.Child("shareID"))...)
	}
	if id := statusID(d); !has.Has(id) {
		errs = append(errs, field.Invalid(path, id.String(), "must be an allocated device in the claim"))
	}
	conditions := path.Child("conditions")
	if len(d.Conditions) > resourcev1.AllocatedDeviceStatusMaxConditions {
		errs = append(errs, field.TooMany(conditions, len(d.Conditions), resourcev1.AllocatedDeviceStatusMaxConditions))
	}
	errs = append(errs, metav1validation.ValidateConditions(d.Conditions, conditions)...)
	if d.Data != nil && len(d.Data.Raw) > 0 {
		errs = append(errs, validateRawObject(d.Data.Raw, resourcev1.AllocatedDeviceStatusDataMaxLength, path.Child("data"))...)
	}
	if d.NetworkData != nil {
		errs = append(errs, validateNetworkData(d.NetworkData, path.Child("networkData"))...)
	}
	return errs
}

func validateNetworkData(d *resourcev1.NetworkDeviceData, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(d.InterfaceName) > resourcev1.NetworkDeviceDataInterfaceNameMaxLength {
		errs = append(errs, field.TooLong(path.Child("interfaceName"), "", resourcev1.NetworkDeviceDataInterfaceNameMaxLength))
	}
	if len(d.HardwareAddress) > resourcev1.NetworkDeviceDataHardwareAddressMaxLength {
		errs = append(errs, field.TooLong(path.Child("hardwareAddress"), "", resourcev1.NetworkDeviceDataHardwareAddressMaxLength))
	}
	return append(errs, set(d.IPs, resourcev1.NetworkDeviceDataMaxIPs, path.Child("ips"), itself, func(ip *string, path *field.Path) field.ErrorList {
		return validation.IsValidInterfaceAddress(path, *ip)
	})...)
}
