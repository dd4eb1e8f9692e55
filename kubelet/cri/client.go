package cri

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/cri-client/pkg/util"
)

// maxMessage bounds what is received in one message, in bytes; runtimes send up to 16 MiB of an exec's output.
const maxMessage = 16<<20 + 64<<10

// dial makes a connection to a runtime's socket, which is made and kept by gRPC in the background.
//
// The generated clients are used as they are, and not cri-client's services around them: those want the runtime to be there
// when they are made, and log by themselves.
func dial(endpoint string, timeout time.Duration, metrics *metrics) (*grpc.ClientConn, error) {
	address, dialer, err := util.GetAddressAndDialer(endpoint)
	if err != nil {
		return nil, fmt.Errorf("parse %q: %w", endpoint, err)
	}
	limits := backoff.DefaultConfig
	limits.BaseDelay, limits.MaxDelay = 100*time.Millisecond, 3*time.Second
	conn, err := grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithAuthority("localhost"),
		grpc.WithContextDialer(dialer),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: limits, MinConnectTimeout: 5 * time.Second}),
		grpc.WithUnaryInterceptor(intercept(timeout, metrics)),
	)
	if err != nil {
		return nil, fmt.Errorf("connect to %q: %w", endpoint, err)
	}
	return conn, nil
}

// intercept bounds and counts each request.
func intercept(timeout time.Duration, metrics *metrics) grpc.UnaryClientInterceptor {
	return func(ctx context.Context, method string, request, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
		if limit := timeoutOf(request, timeout); limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		began := time.Now()
		err := invoke(ctx, method, request, reply, conn, options...)
		if strings.HasPrefix(method, "/runtime.") { // what is asked beside the interface is no operation of it
			metrics.observe(method, began, err)
		}
		return err
	}
}

// timeoutOf is how long a request may take: upstream's limits. 0 is no limit.
func timeoutOf(request any, usual time.Duration) time.Duration {
	switch request := request.(type) {
	case *runtimeapi.RunPodSandboxRequest:
		return 2 * usual
	case *runtimeapi.StopContainerRequest:
		return usual + time.Duration(request.Timeout)*time.Second
	case *runtimeapi.ExecSyncRequest:
		if request.Timeout == 0 {
			return 0
		}
		return usual + time.Duration(request.Timeout)*time.Second
	case *runtimeapi.PullImageRequest:
		return 0
	}
	return usual
}
