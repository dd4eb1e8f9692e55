package cluster

// Ports on which components serve health and metrics, as upstream's.
const (
	ControllerManagerPort = 10257
	SchedulerPort         = 10259
)
