package env

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Services keeps what environments say of services. Follow feeds it; until Synced has been called no environment of a pod
// from the API server can be made.
type Services struct {
	ready atomic.Bool

	mu         sync.Mutex
	namespaces map[string]*namespace
}

// namespace has the services of a namespace that have an address.
type namespace struct {
	services map[string]service
	// links are the variables of all services, made when they are first asked for; nil after a change. Published ones are never
	// changed. Only namespaces whose pods want links have them.
	links []Var
}

// service is what variables say of a Service.
type service struct {
	ip    string
	ports []port
}

type port struct {
	name, protocol string
	number         int32
}

// NewServices makes an empty set.
func NewServices() *Services { return &Services{namespaces: map[string]*namespace{}} }

// Synced says that all services that there are have been told.
func (s *Services) Synced() { s.ready.Store(true) }

func (s *Services) synced() bool { return s.ready.Load() }

// Set notes a Service that is new or has changed. It keeps nothing of the object.
func (s *Services) Set(object *corev1.Service) {
	if object.Spec.ClusterIP == "" || object.Spec.ClusterIP == corev1.ClusterIPNone {
		s.Delete(object.Namespace, object.Name)
		return
	}
	entry := service{ip: strings.Clone(object.Spec.ClusterIP)}
	for i := range object.Spec.Ports {
		p := &object.Spec.Ports[i]
		protocol := string(p.Protocol)
		if protocol == "" {
			protocol = string(corev1.ProtocolTCP)
		}
		entry.ports = append(entry.ports, port{strings.Clone(p.Name), protocol, p.Port})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.namespaces[object.Namespace]
	if n == nil {
		n = &namespace{services: map[string]service{}}
		s.namespaces[object.Namespace] = n
	}
	if had, ok := n.services[object.Name]; !ok || !had.equal(entry) {
		n.services[strings.Clone(object.Name)] = entry
		n.links = nil
	}
}

func (s service) equal(other service) bool {
	return s.ip == other.ip && slices.Equal(s.ports, other.ports)
}

// Delete forgets a Service.
func (s *Services) Delete(inNamespace, name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.namespaces[inNamespace]
	if n == nil {
		return
	}
	if _, ok := n.services[name]; !ok {
		return
	}
	delete(n.services, name)
	n.links = nil
	if len(n.services) == 0 {
		delete(s.namespaces, inNamespace)
	}
}

// master is the Service of the API server, which every pod is told of.
const master = "kubernetes"

// variables returns the variables of the services that a pod in a namespace sees: of all in it if links are wanted, and of the API
// server unless the namespace has a service of that name itself. Each list is sorted by name; they are shared.
func (s *Services) variables(inNamespace string, links bool) (vars [2][]Var) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.namespaces[inNamespace]
	if links && n != nil {
		if n.links == nil {
			n.links = n.variables()
		}
		vars[0] = n.links
		if _, own := n.services[master]; own {
			return vars
		}
	}
	if d := s.namespaces[metav1.NamespaceDefault]; d != nil {
		if api, ok := d.services[master]; ok {
			vars[1] = sorted(api.append(nil, master))
		}
	}
	return vars
}

func (n *namespace) variables() []Var {
	count := 0
	for _, s := range n.services {
		count += 3 + 6*len(s.ports)
	}
	vars := make([]Var, 0, count)
	for name, s := range n.services {
		vars = s.append(vars, name)
	}
	return sorted(vars)
}

// sorted sorts by name and drops all but one of a name: services a-b and a.b are the same to the environment.
func sorted(vars []Var) []Var {
	slices.SortFunc(vars, func(a, b Var) int {
		if order := strings.Compare(a.Name, b.Name); order != 0 {
			return order
		}
		return strings.Compare(a.Value, b.Value)
	})
	return slices.CompactFunc(vars, func(a, b Var) bool { return a.Name == b.Name })
}

// append adds NAME_SERVICE_HOST and its like, and the variables that links of Docker had (pkg/kubelet/envvars).
func (s service) append(vars []Var, name string) []Var {
	if len(s.ports) == 0 {
		return vars
	}
	add := func(name, value string) { vars = append(vars, Var{Name: name, Value: value}) }
	prefix := variableName(name)
	add(prefix+"_SERVICE_HOST", s.ip)
	add(prefix+"_SERVICE_PORT", strconv.Itoa(int(s.ports[0].number)))
	for i, p := range s.ports {
		number, protocol := strconv.Itoa(int(p.number)), strings.ToLower(p.protocol)
		url := protocol + "://" + net.JoinHostPort(s.ip, number)
		if p.name != "" {
			add(prefix+"_SERVICE_PORT_"+variableName(p.name), number)
		}
		if i == 0 {
			add(prefix+"_PORT", url)
		}
		of := prefix + "_PORT_" + number + "_" + strings.ToUpper(p.protocol)
		add(of, url)
		add(of+"_PROTO", protocol)
		add(of+"_PORT", number)
		add(of+"_ADDR", s.ip)
	}
	return vars
}

func variableName(name string) string {
	name = strings.ToUpper(strings.NewReplacer("-", "_", ".", "_").Replace(name))
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		return "_" + name
	}
	return name
}
