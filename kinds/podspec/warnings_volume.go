package podspec

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// volumes warns of volume drivers that are on their way out or gone.
func (w *warner) volumes(at *field.Path) {
	for i, v := range w.spec.Volumes {
		for _, driver := range []struct {
			name string
			used bool
			text string
		}{
			{"photonPersistentDisk", v.PhotonPersistentDisk != nil, "deprecated in v1.11, non-functional in v1.16+"},
			{"gitRepo", v.GitRepo != nil, "deprecated in v1.11"},
			{"scaleIO", v.ScaleIO != nil, "deprecated in v1.16, non-functional in v1.22+"},
			{"flocker", v.Flocker != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"storageOS", v.StorageOS != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"quobyte", v.Quobyte != nil, "deprecated in v1.22, non-functional in v1.25+"},
			{"glusterfs", v.Glusterfs != nil, "deprecated in v1.25, non-functional in v1.26+"},
			{"cephfs", v.CephFS != nil, "deprecated in v1.28, non-functional in v1.31+"},
			{"rbd", v.RBD != nil, "deprecated in v1.28, non-functional in v1.31+"},
		} {
			if driver.used {
				w.warn(at.Index(i).Child(driver.name), "%s", driver.text)
			}
		}
		if v.Ephemeral != nil && v.Ephemeral.VolumeClaimTemplate != nil {
			storage, ok := v.Ephemeral.VolumeClaimTemplate.Spec.Resources.Requests[corev1.ResourceStorage]
			if ok && storage.MilliValue()%1000 != 0 {
				w.warn(at.Index(i).Child("ephemeral", "volumeClaimTemplate", "spec", "resources", "requests").Key(string(corev1.ResourceStorage)),
					"fractional byte value %q is invalid, must be an integer", storage.String())
			}
		}
	}
}

// tokenPaths warns of files of a projected volume that have the name of a service account token.
func (w *warner) tokenPaths(at *field.Path) {
	tokens := sets.New[string]()
	for _, v := range w.spec.Volumes {
		if v.Projected == nil {
			continue
		}
		for _, s := range v.Projected.Sources {
			if s.ServiceAccountToken != nil {
				tokens.Insert(s.ServiceAccountToken.Path)
			}
		}
	}
	check := func(file string, at *field.Path) {
		if tokens.Has(file) {
			w.warn(at, "has duplicated path with ServiceAccountToken %q", file)
		}
	}
	for i, v := range w.spec.Volumes {
		if v.Projected == nil {
			continue
		}
		at := at.Index(i).Child("projected", "sources")
		for _, s := range v.Projected.Sources {
			if s.ConfigMap != nil {
				for j, item := range s.ConfigMap.Items {
					check(item.Path, at.Child("configMap").Index(j))
				}
			}
			if s.Secret != nil {
				for j, item := range s.Secret.Items {
					check(item.Path, at.Child("secrets").Index(j))
				}
			}
			if s.DownwardAPI != nil {
				for j, item := range s.DownwardAPI.Items {
					check(item.Path, at.Child("downwardAPI").Index(j))
				}
			}
			if s.ClusterTrustBundle != nil {
				check(s.ClusterTrustBundle.Path, at.Child("ClusterTrustBundle"))
			}
		}
	}
}

// ports warns of ports that several containers, or one of them twice, call their own.
func (w *warner) ports(at *field.Path) {
	type place struct {
		path *field.Path
		port corev1.ContainerPort
	}
	known := map[string][]place{}
	VisitContainers(w.spec, at, func(c *corev1.Container, path *field.Path) {
		for i, port := range c.Ports {
			at := path.Child("ports").Index(i)
			if port.HostIP != "" && port.HostPort == 0 {
				w.warn(at, "hostIP set without hostPort: %+v", port)
			}
			key := fmt.Sprintf("%d/%s", port.ContainerPort, port.Protocol)
			for _, other := range known[key] {
				switch {
				case port.HostIP == other.port.HostIP && port.HostPort == other.port.HostPort:
					w.warn(at, "duplicate port definition with %s", other.path)
				case port.HostPort == 0 || other.port.HostPort == 0:
					w.warn(at, "overlapping port definition with %s", other.path)
				case port.HostPort == other.port.HostPort && (port.HostIP == "") != (other.port.HostIP == ""):
					// One wants the port on all addresses of the host, the other on one of them.
					w.warn(at, "dangerously ambiguous port definition with %s", other.path)
				}
			}
			known[key] = append(known[key], place{at, port})
		}
	})
}
