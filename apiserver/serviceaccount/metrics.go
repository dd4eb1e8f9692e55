package serviceaccount

import "github.com/prometheus/client_golang/prometheus"

// tokenMetrics count the uses of tokens that should be others.
type tokenMetrics struct {
	valid, stale                    prometheus.Counter // of tokens that pods are given: in time, and after the hour they say
	legacy, listed, manual, invalid prometheus.Counter // of tokens in Secrets
}

func newTokenMetrics(reg prometheus.Registerer) *tokenMetrics {
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "serviceaccount", Name: name, Help: help})
		if reg != nil {
			reg.MustRegister(c)
		}
		return c
	}
	return &tokenMetrics{
		valid:   counter("valid_tokens_total", "Uses of service account tokens of pods that were renewed in time."),
		stale:   counter("stale_tokens_total", "Uses of service account tokens of pods that should have been renewed."),
		legacy:  counter("legacy_tokens_total", "Uses of service account tokens from Secrets."),
		listed:  counter("legacy_auto_token_uses_total", "Uses of service account tokens from Secrets that the service account lists."),
		manual:  counter("legacy_manual_token_uses_total", "Uses of service account tokens from Secrets that a person has made."),
		invalid: counter("invalid_legacy_auto_token_uses_total", "Uses of service account tokens from Secrets that have been marked invalid."),
	}
}
