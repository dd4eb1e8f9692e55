// Package events holds the kinds of events.k8s.io: Event, which is core/v1's in another shape.
package events
