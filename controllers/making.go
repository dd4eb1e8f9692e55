package controllers

import (
	"fmt"
	"log/slog"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"vigil/controllers/internal/account"
	"vigil/informer/workqueue"
	"vigil/internal/protobufclient"
)

// making is what the controller of a row is made from.
type making struct {
	Config
	row     *row
	clients *clients
	metrics *workqueue.Metrics // nil: none
	err     error              // of the first client that could not be made
}

func (m *making) logger() *slog.Logger { return m.Logger.With("controller", m.row.name()) }

// recorder returns a recorder of events whose source is component.
func (m *making) recorder(component string) record.EventRecorder {
	return m.Events.NewRecorder(scheme.Scheme, corev1.EventSource{Component: component})
}

// client returns a client that acts as the row's first account.
func (m *making) client() kubernetes.Interface { return m.clientOf(m.row.accounts[0]) }

// clientOf returns a client that acts as one of the row's accounts. It speaks protobuf.
func (m *making) clientOf(account string) kubernetes.Interface {
	client, err := kubernetes.NewForConfig(protobufclient.Config(m.configOf(account)))
	m.fail(err)
	return client
}

// metadata returns a client for objects of any kind that acts as the row's first account.
func (m *making) metadata() metadata.Interface {
	client, err := metadata.NewForConfig(m.configOf(m.row.accounts[0]))
	m.fail(err)
	return client
}

// discovery returns a client that acts as the controller manager: everybody may ask what is served.
func (m *making) discovery() discovery.DiscoveryInterface { return m.clients.own.Discovery() }

func (m *making) configOf(account string) *rest.Config {
	if !slices.Contains(m.row.accounts, account) {
		m.fail(fmt.Errorf("acts as %s, which is none of its accounts", account))
	}
	return m.clients.config(account)
}

func (m *making) fail(err error) {
	if m.err == nil {
		m.err = err
	}
}

// clients has the configurations of clients.
type clients struct {
	server   *rest.Config
	own      kubernetes.Interface
	accounts *account.Accounts // nil: all controllers act as server says
}

func newClients(config Config) (*clients, error) {
	own, err := kubernetes.NewForConfig(config.Server)
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	c := &clients{server: config.Server, own: own}
	if config.Accounts != nil {
		c.accounts = account.New(config.Accounts, own)
	}
	return c, nil
}

func (c *clients) config(name string) *rest.Config {
	if c.accounts == nil {
		return c.server
	}
	return c.accounts.Config(name)
}
