package connect

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiproxy "k8s.io/apimachinery/pkg/util/proxy"

	"vigil/apiserver/respond"
	"vigil/internal/connectionlog"
	"vigil/kinds"
)

// Config says how kubelets and pods are reached. Objects is needed, everything else has a default.
type Config struct {
	Kubelets Kubelets
	Objects  Objects
	// AllowLoopback lets pods, services and nodes be at loopback addresses: for a cluster on a machine that has no other, and for tests.
	AllowLoopback bool
	// OwnNodes are the names of nodes that run on the server's machine, besides one named as the machine: they may have its addresses.
	OwnNodes []string
	Logger   *slog.Logger // nil discards
}

// Objects reads what requests name. What it returns is shared: nobody changes it.
type Objects interface {
	// Find fails with a NotFound Status.
	Find(ctx context.Context, resource schema.GroupResource, namespace, name string) (kinds.Object, error)
	// EndpointSlices are those of a Service.
	EndpointSlices(namespace, service string) ([]*discoveryv1.EndpointSlice, error)
}

// Connector is made by New. It is safe for use by many goroutines.
type Connector struct {
	config   Config
	kubelets *kubelets
	direct   *http.Transport // to pods and services, and to other ports of nodes that may be this machine
	away     *http.Transport // to other ports of other nodes
}

// New reads the certificates for kubelets.
func New(config Config) (*Connector, error) {
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	k, err := newKubelets(config.Kubelets, config.AllowLoopback, config.Logger)
	if err != nil {
		return nil, err
	}
	return &Connector{
		config: config, kubelets: k,
		direct: directTransport(guard{loopback: config.AllowLoopback, own: true}), away: directTransport(guard{loopback: config.AllowLoopback, own: config.AllowLoopback}),
	}, nil
}

// Request is a request that is authorized.
type Request struct {
	Resource        schema.GroupResource
	Subresource     string
	Namespace, Name string
	Path            string // behind the subresource, with its leading slash
	Verb            string // that was authorized

	// Admit asks admission about the options, Authorize whether the caller may do the same under another verb. Neither is nil.
	Admit     func(ctx context.Context, options runtime.Object) error
	Authorize func(ctx context.Context, verb string) error
}

// serve answers one sort of request.
type serve func(c *Connector, w http.ResponseWriter, req *http.Request, r *Request) error

var sorts = map[schema.GroupResource]map[string]serve{
	{Resource: "pods"}: {
		"exec": (*Connector).exec, "attach": (*Connector).attach, "portforward": (*Connector).portForward,
		"log": (*Connector).log, "proxy": (*Connector).podProxy,
	},
	{Resource: "services"}: {"proxy": (*Connector).serviceProxy},
	{Resource: "nodes"}:    {"proxy": (*Connector).nodeProxy},
}

// Serve answers a request. It returns when the bytes have stopped to flow, at the latest soon after the context of req has ended
// or, on an upgraded connection, when that is closed. An error has not been answered: it is a Status or becomes a 500. What proved who the
// caller is must be out of the headers: they are passed on.
func (c *Connector) Serve(w http.ResponseWriter, req *http.Request, r *Request) error {
	answer := sorts[r.Resource][r.Subresource]
	if answer == nil {
		return respond.NoMethod()
	}
	if query := req.URL.Query(); len(query["dryRun"]) > 0 {
		return apierrors.NewBadRequest("dryRun is not supported")
	}
	return answer(c, w, req.WithContext(connectionlog.Context(req.Context(), c.config.Logger)), r)
}

func (c *Connector) pod(ctx context.Context, r *Request, name string) (*corev1.Pod, error) {
	obj, err := c.config.Objects.Find(ctx, schema.GroupResource{Resource: "pods"}, r.Namespace, name)
	if err != nil {
		return nil, err
	}
	return obj.(*corev1.Pod), nil
}

// forward proxies a request to location: one that must be upgraded, or any.
func (c *Connector) forward(location *url.URL, transport *http.Transport, upgrade bool) http.Handler {
	return apiproxy.NewUpgradeAwareHandler(location, transport, !upgrade, upgrade, responder{})
}

// responder answers with what went wrong before bytes flowed.
type responder struct{}

// Error implements apiproxy.ErrorResponder.
func (responder) Error(w http.ResponseWriter, req *http.Request, err error) {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		err = apierrors.NewInternalError(err)
	}
	respond.Error(w, req, err)
}
