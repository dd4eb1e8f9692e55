// Package audit writes down who did what, as a Policy (audit.k8s.io/v1) says, in upstream's form: to a log, to a webhook, or to both.
//
// An [Auditor] decides with the policy for each request whether it gets a [Record], which collects the event and hands it to
// the backends at each stage. A request without a record, or a server without an auditor, pays for a nil check.
//
// Requests wait for no backend unless asked to: in batch mode, which is the default of both, an event goes into a bounded queue, and is
// dropped and counted (apiserver_audit_error_total) when there is no room. That differs from upstream, where the log is written in blocking mode unless
// --audit-log-mode says otherwise.
//
// Request and response objects are what was on the wire, turned into JSON; what is larger than [maxBody] is left out, and the
// event gets the annotation audit.k8s.io/truncated.
//
// Start reading at [New], then record.go.
package audit
