// Package resourcequota keeps the status of resource quotas: it copies their limits and adds up what the objects of their namespace
// use. What new objects use is booked by the API server before they are stored, so this only has to notice what goes, what was
// booked in vain, and new or changed quotas.
//
// Pods, services and claims are measured one by one, from informers, and their going is noticed at once. Of other resources only the
// number counts; the server is asked for it (a list with a limit of one says how many more there are), every few seconds as long as a
// quota limits it.
//
// Each change of what a quota shows as used is checked a few seconds later: a booking may have been for an object that was refused
// after all. A recalculation that the server has raised, because it knows of objects that are not there yet, is done again, too.
//
// Follows upstream's pkg/controller/resourcequota.
package resourcequota
