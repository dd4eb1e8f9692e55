package main

import (
	"time"

	"github.com/spf13/pflag"

	"vigil/cluster"
)

// addAuthorization adds the flags of who decides what callers may do.
func addAuthorization(flags *pflag.FlagSet, c *cluster.AuthorizationConfig) {
	flags.StringSliceVar(&c.Modes, "authorization-mode", nil, "who decides what callers may do, in this order: AlwaysAllow, AlwaysDeny, ABAC, Webhook, RBAC, Node (default Node,RBAC)")
	flags.StringVar(&c.PolicyFile, "authorization-policy-file", "", "policies of mode ABAC, one JSON object a line")
	flags.StringVar(&c.WebhookFile, "authorization-webhook-config-file", "", "kubeconfig of the server that mode Webhook asks")
	flags.StringVar(&c.WebhookVersion, "authorization-webhook-version", "v1beta1", "version of SubjectAccessReview that mode Webhook sends: v1 or v1beta1")
	flags.DurationVar(&c.WebhookAuthorizedTTL, "authorization-webhook-cache-authorized-ttl", 5*time.Minute, "how long an allowance by mode Webhook is remembered")
	flags.DurationVar(&c.WebhookUnauthorizedTTL, "authorization-webhook-cache-unauthorized-ttl", 30*time.Second, "how long a refusal by mode Webhook is remembered")
	flags.StringVar(&c.File, "authorization-config", "", "file with an AuthorizationConfiguration, instead of --authorization-mode and --authorization-webhook-*; its changes are followed")
}
