package main

import (
	"time"

	"github.com/spf13/pflag"

	"vigil/cluster"
)

// addAudit adds the --audit flags, with kube-apiserver's names and defaults; but also the log has requests wait only when
// --audit-log-mode says so.
func addAudit(flags *pflag.FlagSet, c *cluster.AuditConfig) {
	flags.StringVar(&c.PolicyFile, "audit-policy-file", "", "file with a Policy (audit.k8s.io/v1): what is written down of which requests; nothing without it")
	flags.StringVar(&c.Log.Path, "audit-log-path", "", "file that audit events are written to, - is standard output")
	flags.IntVar(&c.Log.MaxAge, "audit-log-maxage", 0, "days that old files of the audit log are kept; 0 keeps them")
	flags.IntVar(&c.Log.MaxBackups, "audit-log-maxbackup", 0, "old files of the audit log that are kept; 0 keeps all")
	flags.IntVar(&c.Log.MaxSize, "audit-log-maxsize", 0, "MiB at which a new file of the audit log begins (default 100)")
	flags.BoolVar(&c.Log.Compress, "audit-log-compress", false, "compress old files of the audit log")
	flags.StringVar(&c.Log.Format, "audit-log-format", "json", "json or legacy")
	addAuditQueue(flags, &c.Log.Queue, "log", 1, false)
	flags.StringVar(&c.Webhook.ConfigFile, "audit-webhook-config-file", "", "kubeconfig of a server that audit events are sent to")
	flags.DurationVar(&c.Webhook.InitialBackoff, "audit-webhook-initial-backoff", 10*time.Second, "wait before audit events are sent once more")
	addAuditQueue(flags, &c.Webhook.Queue, "webhook", 400, true)
}

func addAuditQueue(flags *pflag.FlagSet, q *cluster.AuditQueue, backend string, batch int, throttle bool) {
	name := "audit-" + backend + "-"
	flags.StringVar((*string)(&q.Mode), name+"mode", "batch", "batch: events that find no room in the buffer are dropped; blocking: requests wait until an event is written; blocking-strict: and fail when it cannot be")
	flags.IntVar(&q.BufferSize, name+"batch-buffer-size", 10000, "audit events that may wait")
	flags.IntVar(&q.MaxBatchSize, name+"batch-max-size", batch, "most audit events handed over at once")
	flags.DurationVar(&q.MaxBatchWait, name+"batch-max-wait", 30*time.Second, "how long a batch of audit events is waited for")
	flags.BoolVar(&q.Throttle, name+"batch-throttle-enable", throttle, "bound the rate of batches")
	flags.Float32Var(&q.ThrottleQPS, name+"batch-throttle-qps", 10, "batches per second")
	flags.IntVar(&q.ThrottleBurst, name+"batch-throttle-burst", 15, "batches at once before the bound holds")
	flags.BoolVar(&q.Truncate.Enabled, name+"truncate-enabled", false, "leave objects out of large audit events, and split large batches")
	flags.Int64Var(&q.Truncate.MaxEventSize, name+"truncate-max-event-size", 102400, "bytes of an audit event beyond which its objects are left out")
	flags.Int64Var(&q.Truncate.MaxBatchSize, name+"truncate-max-batch-size", 10485760, "bytes of a batch of audit events")
}
