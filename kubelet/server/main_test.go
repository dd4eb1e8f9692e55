package server_test

import (
	"log/slog"
	"testing"

	"k8s.io/klog/v2"

	"vigil/internal/leaktest"
)

func TestMain(m *testing.M) {
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // of the clients and the streaming server
	leaktest.Main(m, "vigil/kubelet", "vigil/apiserver/connect")
}
