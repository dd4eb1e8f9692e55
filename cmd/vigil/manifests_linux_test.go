package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"vigil/cmd/vigil/upstream"
	"vigil/internal/eventually"
)

// The flags of kubeadm's static pods, phases/controlplane of Kubernetes 1.37, with P for its directory of certificates, C for that of kubeconfigs and A for
// the address of the machine.
const (
	kubeadmAPIServer = `--advertise-address=A --allow-privileged=true --authorization-mode=Node,RBAC --client-ca-file=P/ca.crt --enable-admission-plugins=NodeRestriction
		--enable-bootstrap-token-auth=true --etcd-cafile=P/etcd/ca.crt --etcd-certfile=P/apiserver-etcd-client.crt --etcd-keyfile=P/apiserver-etcd-client.key --etcd-servers=https://127.0.0.1:ETCD
		--kubelet-client-certificate=P/apiserver-kubelet-client.crt --kubelet-client-key=P/apiserver-kubelet-client.key --kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname
		--proxy-client-cert-file=P/front-proxy-client.crt --proxy-client-key-file=P/front-proxy-client.key --requestheader-allowed-names=front-proxy-client
		--requestheader-client-ca-file=P/front-proxy-ca.crt --requestheader-extra-headers-prefix=X-Remote-Extra- --requestheader-group-headers=X-Remote-Group
		--requestheader-uid-headers=X-Remote-Uid --requestheader-username-headers=X-Remote-User --secure-port=PORT --service-account-issuer=https://kubernetes.default.svc.cluster.local
		--service-account-key-file=P/sa.pub --service-account-signing-key-file=P/sa.key --service-cluster-ip-range=10.96.0.0/12 --tls-cert-file=P/apiserver.crt
		--tls-private-key-file=P/apiserver.key`
	kubeadmControllerManager = `--allocate-node-cidrs=true --authentication-kubeconfig=C/controller-manager.conf --authorization-kubeconfig=C/controller-manager.conf --bind-address=127.0.0.1
		--client-ca-file=P/ca.crt --cluster-cidr=10.244.0.0/16 --cluster-name=kubernetes --cluster-signing-cert-file=P/ca.crt --cluster-signing-key-file=P/ca.key
		--controllers=*,bootstrap-signer-controller,token-cleaner-controller --kubeconfig=C/controller-manager.conf --leader-elect=true --requestheader-client-ca-file=P/front-proxy-ca.crt
		--root-ca-file=P/ca.crt --service-account-private-key-file=P/sa.key --service-cluster-ip-range=10.96.0.0/12 --use-service-account-credentials=true`
	kubeadmScheduler = `--authentication-kubeconfig=C/scheduler.conf --authorization-kubeconfig=C/scheduler.conf --bind-address=127.0.0.1 --kubeconfig=C/scheduler.conf --leader-elect=true`
	kubeadmKubelet   = `--bootstrap-kubeconfig=C/bootstrap-kubelet.conf --kubeconfig=C/nodes/node-1/kubelet.conf --container-runtime-endpoint=unix:///var/run/containerd/containerd.sock
		--hostname-override=node-1 --node-ip=A --pod-infra-container-image=registry.k8s.io/pause:3.10.2 --cgroup-driver=cgroupfs --resolv-conf=/etc/resolv.conf`
	// What controller-runtime's envtest gives to kube-apiserver, and what suites commonly add.
	envtestAPIServer = `--allow-privileged=true --authorization-mode=RBAC --bind-address=127.0.0.1 --cert-dir=E --client-ca-file=E/client-cert-auth-ca.crt --disable-admission-plugins=ServiceAccount
		--etcd-servers=https://127.0.0.1:ETCD --secure-port=PORT --service-account-issuer=https://127.0.0.1:PORT/ --service-account-key-file=E/sa-signer.crt
		--service-account-signing-key-file=E/sa-signer.key --service-cluster-ip-range=10.0.0.0/24 --feature-gates=SidecarContainers=true --advertise-address=127.0.0.1`
)

// TestManifests_Refusals shows what a value that Vigil cannot have is answered with, through each command.
func TestManifests_Refusals(t *testing.T) {
	for line, want := range map[string]string{
		"apiserver --allow-privileged=false":                             `invalid argument "false" for "--allow-privileged" flag: pods may ask for privileged containers; namespaces forbid that with pod-security.kubernetes.io/enforce; only true is possible`,
		"apiserver --storage-backend=memory":                             "objects are kept in etcd; only etcd3 is possible",
		"apiserver --service-account-lookup=false":                       "tokens end with their service accounts; only true is possible",
		"apiserver --feature-gates=Nonsense=true":                        "unrecognized feature gate: Nonsense",
		"apiserver --runtime-config=api/all=true":                        "api/all=true: only stable versions are served",
		"apiserver --tls-min-version=VersionTLS10":                       "--tls-min-version: VersionTLS10 is broken",
		"apiserver --no-such-flag":                                       "unknown flag: --no-such-flag",
		"controller-manager --cloud-provider=aws":                        "no cloud provider is built in, as upstream since 1.31",
		"controller-manager --kubeconfig=x --vmodule=no":                 "--vmodule: syntax error: expect comma-separated list of filename=N",
		"scheduler --leader-elect-resource-lock=endpoints":               "leaders are elected with Leases",
		"kubelet --cgroup-driver=systemd":                                "the kubelet makes cgroups itself, without systemd; only cgroupfs is possible",
		"kubelet --cpu_manager_policy=static":                            "are not assigned to containers one by one; only none is possible",
		"scheduler --kubeconfig=x --http2-max-streams-per-connection=-1": "--http2-max-streams-per-connection value can not be negative",
	} {
		if out, err := vigil(strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("vigil %s: %v (%s), want %s", line, err, out, want)
		}
	}
}

// TestHelp_Sections has every flag of a command in a section, and the ones that matter first.
func TestHelp_Sections(t *testing.T) {
	for _, c := range []struct {
		command *cobra.Command
		first   string
		table   []upstream.Section
	}{
		{newUp(), "Most used flags", upstream.Up()}, {newAPIServer(), "Secure serving flags", upstream.APIServer()},
		{newControllerManager(), "Generic flags", upstream.ControllerManager()}, {newScheduler(), "Misc flags", upstream.Scheduler()}, {newKubelet(), "Generic flags", upstream.Kubelet()},
	} {
		placed := map[string]bool{}
		for _, s := range c.table {
			for _, f := range s.Flags {
				placed[f.Name] = true
				if c.command.Name() != "up" && c.command.Flags().Lookup(f.Name) == nil {
					t.Errorf("%s: the table says that --%s works, and there is no such flag", c.command.Name(), f.Name)
				}
			}
		}
		var lost []string
		c.command.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name != "help" && !placed[f.Name] {
				lost = append(lost, f.Name)
			}
		})
		if len(lost) > 0 {
			t.Errorf("%s: no section has %v", c.command.Name(), lost)
		}
		help, err := vigil(c.command.Name(), "--help")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(help, "[flags]\n")
		if !strings.HasPrefix(strings.TrimSpace(rest), c.first+":") {
			t.Errorf("%s --help begins with %.80q, want %s", c.command.Name(), rest, c.first)
		}
		c.command.Flags().VisitAll(func(f *pflag.Flag) {
			if n := strings.Count(help, " --"+f.Name+" ") + strings.Count(help, " --"+f.Name+"\n"); n == 0 {
				t.Errorf("%s --help leaves out --%s", c.command.Name(), f.Name)
			}
		})
	}
}

// TestManifests starts each component by upstream's name with the flags that kubeadm and envtest give it, over the etcd and the certificates of `vigil up`.
func TestManifests(t *testing.T) {
	data := t.TempDir()
	etcd, own := ports(t, 2), ports(t, 1)
	start(t, "vigil", "up", "--data-dir="+data, "--nodes=0", "--runtime=simulated", "--etcd-port="+etcd, "--secure-port="+own, "--controller-manager-port=0", "--scheduler-port=0").until("https://127.0.0.1:"+own+"/readyz", "ok")
	envtest := t.TempDir()
	for to, from := range map[string]string{"apiserver.crt": "apiserver.crt", "apiserver.key": "apiserver.key", "client-cert-auth-ca.crt": "ca.crt", "sa-signer.crt": "apiserver.crt", "sa-signer.key": "apiserver.key"} {
		content, err := os.ReadFile(filepath.Join(data, "pki", from))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(envtest, to), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fill := func(flags, port string, more ...string) []string {
		var args []string
		for flag := range strings.FieldsSeq(flags) {
			name, value, _ := strings.Cut(flag, "=")
			for _, place := range []struct{ from, to string }{{"P/", data + "/pki/"}, {"C/", data + "/"}, {"E/", envtest + "/"}} {
				if strings.HasPrefix(value, place.from) {
					value = place.to + strings.TrimPrefix(value, place.from)
				}
			}
			switch value {
			case "A":
				value = "127.0.0.1"
			case "E":
				value = envtest
			}
			args = append(args, name+"="+strings.NewReplacer("ETCD", etcd, "PORT", port).Replace(value))
		}
		return append(args, more...)
	}
	certificates := []string{"--etcd-cafile=" + data + "/pki/etcd/ca.crt", "--etcd-certfile=" + data + "/pki/apiserver-etcd-client.crt", "--etcd-keyfile=" + data + "/pki/apiserver-etcd-client.key"}

	for _, c := range []struct {
		name, flags string
		more        []string
	}{
		{"kube-apiserver", kubeadmAPIServer, []string{"--bind-address=127.0.0.1"}},
		{"kube-apiserver", envtestAPIServer, append([]string{"--etcd-prefix=/envtest"}, certificates...)},
		{"kube-apiserver", kubeadmAPIServer, []string{"--bind-address=127.0.0.1", "-v=4", "--vmodule=nothing=9", "--runtime-config=api/ga=true", "--profiling=false", "--delete-collection-workers=5", "--etcd_compaction_interval=5m"}},
		{"kube-controller-manager", kubeadmControllerManager, []string{"--secure-port=PORT", "--concurrent-deployment-syncs=10", "--v=2", "--cert-dir=" + t.TempDir()}},
		{"kube-scheduler", kubeadmScheduler, []string{"--secure-port=PORT", "--kube-api-qps=500"}},
	} {
		port := ports(t, 1)
		started := start(t, c.name, fill(c.flags+" "+strings.Join(c.more, " "), port)...)
		started.until("https://127.0.0.1:"+port+"/healthz", "ok")
		started.stop()
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(data, "admin.conf"))
	if err != nil {
		t.Fatal(err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := start(t, "kubelet", append(fill(kubeadmKubelet, ""), "--runtime=simulated", "--data-dir="+t.TempDir(), "--kubeconfig="+data+"/admin.conf")...)
	kubelet.wait("node-1 is ready", func() error {
		node, err := client.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}) {
			return fmt.Errorf("its conditions are %v", node.Status.Conditions)
		}
		return nil
	})
}

// running is the program in a process of its own.
type running struct {
	t      *testing.T
	name   string
	cmd    *exec.Cmd
	output strings.Builder
	exited chan error
}

// start runs the program under a name until the test ends.
func start(t *testing.T, name string, args ...string) *running {
	t.Helper()
	r := &running{t: t, name: name, cmd: &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{name}, args...), Env: append(os.Environ(), programVariable+"=1")}, exited: make(chan error, 1)}
	r.cmd.Stdout, r.cmd.Stderr = &r.output, &r.output
	if err := r.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { r.exited <- r.cmd.Wait() }()
	t.Cleanup(r.stop)
	return r
}

func (r *running) stop() {
	_ = r.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	err := <-r.exited
	r.exited <- err
}

// until waits until a URL answers with a text.
func (r *running) until(url, want string) {
	r.t.Helper()
	r.wait(url+" answers "+want, func() error {
		if status, body := answer(url); status != http.StatusOK || body != want {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
}

// wait waits until check returns nil, for as long as the program runs.
func (r *running) wait(what string, check func() error) {
	r.t.Helper()
	eventually.Nil(r.t, r.name+": "+what, func() error {
		missing := check()
		select {
		case err := <-r.exited:
			r.exited <- err
			if missing != nil {
				r.t.Fatalf("%s %v ended: %v\n%s", r.name, r.cmd.Args, err, r.output.String())
			}
		default:
		}
		return missing
	})
}

// answer asks without credentials.
func answer(url string) (status int, body string) {
	client := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} // the server's health is asked for, not who it is
	response, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	text, _ := io.ReadAll(response.Body)
	return response.StatusCode, string(text)
}

// ports are free ones side by side; the first is returned.
func ports(t *testing.T, n int) string {
	t.Helper()
	for range 100 {
		first, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		port, free := first.Addr().(*net.TCPAddr).Port, true
		for i := 1; i < n; i++ {
			next, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+i))
			if free = err == nil; !free {
				break
			}
			next.Close()
		}
		first.Close()
		if free {
			return strconv.Itoa(port)
		}
	}
	t.Fatal("no free ports")
	return ""
}
