package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"vigil/h2"
)

// http2 shows what the HTTP/2 server counts. Upstream has no such metrics: net/http's server tells nothing.
type http2 struct {
	stats func() h2.Stats

	connections, streams, handlers, chunked   *prometheus.Desc
	requests, refused, resets, goAways        *prometheus.Desc
	closed, timeouts, shortWrites, socketFull *prometheus.Desc
}

// RegisterHTTP2 shows what an HTTP/2 server has seen.
func RegisterHTTP2(reg prometheus.Registerer, stats func() h2.Stats) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("apiserver_http2_"+name, help, labels, nil)
	}
	reg.MustRegister(&http2{
		stats:       stats,
		connections: desc("connections", "Open HTTP/2 connections."),
		streams:     desc("streams", "Open HTTP/2 streams: those of a handler that runs, and detached ones, driven by the delivery workers.", "state"),
		handlers:    desc("handlers", "Handlers of HTTP/2 requests that have not returned."),
		chunked:     prometheus.NewDesc("apiserver_http1_watches", "Watches over HTTP/1.1 driven by the delivery workers.", nil, nil),
		requests:    desc("requests_total", "HTTP/2 requests given to a handler."),
		refused:     desc("streams_refused_total", "Streams refused because a connection had too many."),
		resets:      desc("streams_reset_total", "Streams that clients reset within two seconds."),
		goAways:     desc("goaways_total", "GOAWAY frames sent."),
		closed:      desc("connections_closed_total", "Connections that the server ended because of what their clients did, or failed to do.", "reason"),
		timeouts:    desc("stream_timeouts_total", "Requests given up: their body did not end, or their response was not read.", "reason"),
		shortWrites: desc("short_writes_total", "Writes to watches of which the client's windows or socket took only a part."),
		socketFull:  desc("socket_full_total", "Times that a connection's send buffer was full."),
	})
}

func (m *http2) Describe(ch chan<- *prometheus.Desc) { prometheus.DescribeByCollect(m, ch) }

func (m *http2) Collect(ch chan<- prometheus.Metric) {
	s := m.stats()
	gauge := func(d *prometheus.Desc, v int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(v), labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	gauge(m.connections, s.Connections)
	gauge(m.streams, s.Detached, "detached")
	gauge(m.streams, max(0, s.Streams-s.Detached), "handled")
	gauge(m.chunked, s.Chunked)
	gauge(m.handlers, s.Handlers)
	counter(m.requests, s.Requests)
	counter(m.refused, s.Refused)
	counter(m.resets, s.Resets)
	counter(m.goAways, s.GoAways)
	counter(m.closed, s.Floods, "flood")
	counter(m.closed, s.ProtocolErrs, "protocol")
	counter(m.closed, s.PingsLost, "ping")
	counter(m.closed, s.Timeouts, "frame")
	counter(m.closed, s.Stuck, "stuck")
	counter(m.timeouts, s.BodyTimeouts, "body")
	counter(m.timeouts, s.Stalled, "response")
	counter(m.shortWrites, s.ShortWrites)
	counter(m.socketFull, s.SocketFull)
}
