package cluster

import "vigil/apiserver/audit"

// AuditConfig says what is written down, and where to; AuditQueue how events get there.
type (
	AuditConfig = audit.Config
	AuditQueue  = audit.Queue
)
