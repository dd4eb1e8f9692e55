package csi

import (
	"context"
	"fmt"
	"time"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

// callTimeout bounds one call of a driver (pkg/volume/csi: csiTimeout).
const callTimeout = 2 * time.Minute

// dial connects to a Unix socket when the first call is made.
func dial(path string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("unix:"+path, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	return conn, nil
}

// call has f talk to the driver that serves at a socket. Each call has a connection of its own: drivers come and go.
func call(ctx context.Context, path string, f func(context.Context, csi.NodeClient) error) error {
	conn, err := dial(path)
	if err != nil {
		return err
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return f(ctx, csi.NewNodeClient(conn))
}

// final says that a call that failed has left nothing behind and nothing under way (pkg/volume/csi: isFinalError).
func final(err error) bool {
	s, ok := status.FromError(err)
	if !ok {
		return false
	}
	switch s.Code() {
	case codes.Canceled, codes.DeadlineExceeded, codes.Unavailable, codes.ResourceExhausted, codes.Aborted:
		return false
	}
	return true
}

// capabilities are what a driver's node service can do.
type capabilities map[csi.NodeServiceCapability_RPC_Type]bool

// connected is a registered driver, and what it can do.
type connected struct {
	name, path string // the socket's
	can        capabilities
}

func (c *connected) call(ctx context.Context, f func(context.Context, csi.NodeClient) error) error {
	return call(ctx, c.path, f)
}

// driver finds a registered driver and asks what it can do.
func (p *Plugin) driver(ctx context.Context, name string) (*connected, error) {
	path, ok := p.registry.endpoint(name)
	if !ok {
		return nil, fmt.Errorf("driver name %s not found in the list of registered CSI drivers", name)
	}
	c := &connected{name, path, capabilities{}}
	err := c.call(ctx, func(ctx context.Context, node csi.NodeClient) error {
		answer, err := node.NodeGetCapabilities(ctx, &csi.NodeGetCapabilitiesRequest{})
		for _, one := range answer.GetCapabilities() {
			c.can[one.GetRpc().GetType()] = true
		}
		return err
	})
	return c, err
}
