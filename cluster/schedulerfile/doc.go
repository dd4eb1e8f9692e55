// Package schedulerfile reads files of kind KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), as --config of a scheduler names them.
//
// Read decodes strictly, fills upstream's defaults and refuses what is wrong, with upstream's field paths and texts; what is right and
// cannot be done here is refused in the same form. So what is left is done, or has no effect that a user could see. Profiles turns
// it into what the scheduler works with. Which plug-ins upstream has, and which of them are here, is a table in plugins.go.
package schedulerfile
