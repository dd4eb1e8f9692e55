package apiserver

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"vigil/apiserver/admission"
	"vigil/apiserver/admission/plugins"
)

// makeAdmission makes the chain that writes pass, over the watch caches.
func (s *Server) makeAdmission() (*admission.Chain, error) {
	config := s.config.Admission
	config.Reader, config.Authorizer = admission.NewCaches(s.stored, s.prefix, s.store), s.authz
	config.Quotas = s.config.Kinds.ByResource(corev1.SchemeGroupVersion.WithResource("resourcequotas"))
	config.Store, config.Prefix, config.Registerer = s.store, s.prefix, s.config.Registerer
	list, err := plugins.New(config)
	if err != nil {
		return nil, fmt.Errorf("admission: %w", err)
	}
	return admission.New(list, s.config.Registerer), nil
}
