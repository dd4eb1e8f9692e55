package cri

import runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

// Client is the runtime service, for those who measure.
func (r *Runtime) Client() runtimeapi.RuntimeServiceClient { return r.client }

// ImageClient is the image service, for those who measure.
func (r *Runtime) ImageClient() runtimeapi.ImageServiceClient { return r.images.client }
