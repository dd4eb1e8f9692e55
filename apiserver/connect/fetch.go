package connect

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
)

// maxFetch bounds what a kubelet may answer, in bytes: about 2 KB for each of its containers.
const maxFetch = 16 << 20

// Fetch gets what the kubelet of a node serves at a path, in the server's own name.
func (c *Connector) Fetch(ctx context.Context, node, path, query string) ([]byte, error) {
	where, err := c.kubelet(ctx, node)
	if err != nil {
		return nil, err
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return nil, fmt.Errorf("fetch %s of node %s: %w", path, node, err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, where.url(path, values).String(), nil)
	if err != nil {
		return nil, fmt.Errorf("fetch %s of node %s: %w", path, node, err)
	}
	response, err := c.kubelets.transport(where, false).RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("fetch %s of node %s: %w", path, node, err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxFetch))
	if err != nil {
		return nil, fmt.Errorf("fetch %s of node %s: %w", path, node, err)
	}
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("fetch %s of node %s: %s: %.200s", path, node, response.Status, body)
	}
	return body, nil
}
