package apiserver

import (
	"fmt"

	"vigil/apiserver/admission"
	"vigil/apiserver/admission/plugins"
)

// makeAdmission makes the chain that writes pass, over the watch caches.
func (s *Server) makeAdmission() (*admission.Chain, *admission.Caches, error) {
	reader := admission.NewCaches(s.config.Kinds, s.prefix, s.Cache, s.store)
	config := s.config.Admission
	config.Reader, config.Authorizer, config.Table, config.Store, config.Prefix, config.Registerer = reader, s.authz, s.config.Kinds, s.store, s.prefix, s.config.Registerer
	list, err := plugins.New(config)
	if err != nil {
		return nil, nil, fmt.Errorf("admission: %w", err)
	}
	return admission.New(s.config.Kinds, list, s.config.Registerer), reader, nil
}
