package volumes

import "context"

// image shows containers the files of an image (KEP-4639). The runtime mounts it: see Manager.Mounts.
type image struct{}

func (image) Name() string { return "kubernetes.io/image" }

func (image) Supports(v *Volume) bool { return v.PV == nil && v.Spec.Image != nil }

func (image) SetUp(context.Context, *Volume) (Mounted, error) { return Mounted{}, nil }

func (image) TearDown(context.Context, Place) error { return nil }
