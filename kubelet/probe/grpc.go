package probe

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	corev1 "k8s.io/api/core/v1"
)

// Bounds of gRPC answers, in bytes.
const (
	messageLimit = 16 << 10
	windowSize   = 64 << 10 // the smallest that gRPC takes
)

// grpc asks the health service (grpc.health.v1). Whatever goes wrong is a failure, as with the tool grpc_health_probe.
func (c *Client) grpc(ctx context.Context, action *corev1.GRPCAction, timeout time.Duration, target Target) (Result, string, error) {
	address := net.JoinHostPort(target.PodIP, strconv.Itoa(int(action.Port)))
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithUserAgent("kube-probe/"+c.version), grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(), grpc.WithDisableRetry(),
		// An answer has a few bytes. Windows that do not grow let nobody send more than that ahead.
		grpc.WithMaxHeaderListSize(headerLimit), grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(messageLimit)),
		grpc.WithInitialWindowSize(windowSize), grpc.WithInitialConnWindowSize(windowSize), grpc.WithReadBufferSize(4<<10), grpc.WithWriteBufferSize(4<<10),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return c.transport.dialer.DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		return Failure, fmt.Sprintf("error: failed to connect service at %q: %+v", address, err), nil
	}
	defer func() { _ = conn.Close() }()
	conn.Connect()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return Failure, fmt.Sprintf("timeout: failed to connect service %q within %v: %+v", address, timeout, ctx.Err()), nil
		}
	}
	service := ""
	if action.Service != nil {
		service = *action.Service
	}
	answer, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil {
		switch said := status.Convert(err); said.Code() {
		case codes.Unimplemented:
			return Failure, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + said.Message(), nil
		case codes.DeadlineExceeded:
			return Failure, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout), nil
		}
		return Failure, fmt.Sprintf("error: health rpc probe failed: %+v", err), nil
	}
	if answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		return Failure, fmt.Sprintf("service unhealthy (responded with %q)", answer.Status), nil
	}
	return Success, "service healthy", nil
}
