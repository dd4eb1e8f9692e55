package nodeipam

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"vigil/controllers/internal/controllertest"
	"vigil/informer"
)

func TestMain(m *testing.M) { controllertest.Main(m) }

type cluster struct {
	*controllertest.Env
	t *testing.T
}

func prefixes(texts ...string) []netip.Prefix {
	var all []netip.Prefix
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// run starts a controller over informers of its own.
func (c *cluster) run(config Config) (stop func()) {
	c.t.Helper()
	var err error
	if c.Informers, err = informer.NewFactory(c.Server, informer.Config{}); err != nil {
		c.t.Fatal(err)
	}
	if config.Client == nil {
		config.Client = c.Client
	}
	config.Informers, config.Recorder, config.Logger = c.Informers, c.Recorder, c.Logger
	controller, err := New(config)
	if err != nil {
		c.t.Fatal(err)
	}
	return c.Run(controller.Run)
}

func (c *cluster) create(name string, cidrs ...string) {
	c.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{PodCIDRs: cidrs}}
	if len(cidrs) > 0 {
		node.Spec.PodCIDR = cidrs[0]
	}
	if _, err := c.Client.CoreV1().Nodes().Create(c.t.Context(), node, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) remove(name string) {
	c.t.Helper()
	if err := c.Client.CoreV1().Nodes().Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

// gets waits until a Node has a network, and returns all that it has.
func (c *cluster) gets(name string) string {
	c.t.Helper()
	var got string
	c.Eventually(func(ctx context.Context) error {
		node, err := c.Client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if got = strings.Join(node.Spec.PodCIDRs, " "); got == "" || node.Spec.PodCIDR != node.Spec.PodCIDRs[0] {
			return errors.New(name + " has no network")
		}
		return nil
	})
	return got
}

func (c *cluster) want(name, cidrs string) {
	c.t.Helper()
	if got := c.gets(name); got != cidrs {
		c.t.Errorf("%s got %s, want %s", name, got, cidrs)
	}
}

func TestController(t *testing.T) {
	c := &cluster{controllertest.Start(t), t}
	config := Config{ClusterCIDRs: prefixes("10.0.0.0/22", "fd00::/62"), ServiceCIDRs: prefixes("10.0.1.0/28", "10.96.0.0/16")}
	c.create("brings-its-own", "10.0.2.0/24", "fd00:0:0:2::/64")
	stop := c.run(config)
	c.create("a")
	c.want("a", "10.0.0.0/24 fd00::/64")
	c.create("b")
	c.want("b", "10.0.3.0/24 fd00:0:0:1::/64")

	c.create("c") // three pieces of four are taken, and Services have one
	c.Eventually(func(ctx context.Context) error {
		return c.HasEvent(ctx, "c", "CIDRNotAvailable", "Node c status is now: CIDRNotAvailable")
	})
	stop()

	// After a restart, nothing is given out that is in use, and what was given back is.
	stop = c.run(config)
	c.remove("a")
	c.want("c", "10.0.0.0/24 fd00::/64")
	c.want("b", "10.0.3.0/24 fd00:0:0:1::/64")
	stop()
}

// A write whose answer is lost has happened: the next try must not take another network.
func TestController_LostAnswers(t *testing.T) {
	c := &cluster{controllertest.Start(t), t}
	lost := 0
	config := rest.CopyConfig(c.Server)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			response, err := next.RoundTrip(request)
			if request.Method == http.MethodPatch && lost < 3 {
				lost++
				response.Body.Close()
				return nil, fmt.Errorf("the answer to %s is lost", request.URL.Path)
			}
			return response, err
		})
	})
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	c.run(Config{Client: client, ClusterCIDRs: prefixes("10.0.0.0/22")})
	var all []string
	for i := range 4 { // all there are
		c.create(fmt.Sprint("n", i))
		all = append(all, c.gets(fmt.Sprint("n", i)))
	}
	slices.Sort(all)
	if want := []string{"10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"}; !slices.Equal(all, want) {
		t.Errorf("given out: %v, want %v", all, want)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestNew_Refuses(t *testing.T) {
	tests := []struct {
		name string
		give Config
	}{
		{"none", Config{}},
		{"two of a family", Config{ClusterCIDRs: prefixes("10.0.0.0/16", "10.1.0.0/16")}},
		{"mask too short", Config{ClusterCIDRs: prefixes("10.0.0.0/25")}},
		{"mask too long", Config{ClusterCIDRs: prefixes("10.0.0.0/16"), MaskSizeIPv4: 33}},
		{"too many", Config{ClusterCIDRs: prefixes("10.0.0.0/8"), MaskSizeIPv4: 28}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			factory, err := informer.NewFactory(&rest.Config{Host: "https://127.0.0.1:1"}, informer.Config{})
			if err != nil {
				t.Fatal(err)
			}
			tt.give.Informers = factory
			if _, err := New(tt.give); err == nil {
				t.Error("was accepted")
			}
		})
	}
}

func TestPool(t *testing.T) {
	p, err := newPool(netip.MustParsePrefix("10.0.0.0/21"), 24) // eight pieces
	if err != nil {
		t.Fatal(err)
	}
	for _, network := range prefixes("10.0.0.0/23", "10.0.2.128/25", "10.0.3.0/24", "10.0.3.0/24", "192.168.0.0/16", "fd00::/64", "10.0.7.0/24") {
		p.occupy(network)
	}
	p.release(netip.MustParsePrefix("10.0.3.0/24"))
	take := func(want string) {
		t.Helper()
		got := "none"
		if piece, ok := p.allocate(); ok {
			got = piece.String()
		}
		if got != want {
			t.Errorf("allocated %s, want %s", got, want)
		}
	}
	take("10.0.4.0/24")
	p.release(netip.MustParsePrefix("10.0.4.0/24"))
	take("10.0.5.0/24") // what was given back is used last
	take("10.0.6.0/24")
	take("10.0.4.0/24")
	take("none")
	p.release(netip.MustParsePrefix("10.0.3.0/24"))
	take("10.0.3.0/24")
	p.occupy(netip.MustParsePrefix("10.0.0.0/8"))
	p.release(netip.MustParsePrefix("10.0.0.0/8"))
	take("none")
	p.release(netip.MustParsePrefix("10.0.0.0/23"))
	take("10.0.0.0/24")
	take("10.0.1.0/24")
}
