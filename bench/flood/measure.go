package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/utils/ptr"
)

// measure runs one server, quiet at first and then flooded.
func measure(ctx context.Context, s settings, fair bool) error {
	dir, err := os.MkdirTemp("", "flood")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	port, err := freePort()
	if err != nil {
		return err
	}
	server := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	args := append([]string{"up", "--data-dir", dir, "--nodes", "0", "--secure-port", strconv.Itoa(port), "--etcd-port", "0",
		"--controller-manager-port", "0", "--scheduler-port", "0", "--enable-priority-and-fairness=" + strconv.FormatBool(fair)}, strings.Fields(s.flags)...)
	up := exec.Command(s.vigil, args...)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	up.Stdout, up.Stderr = log, log
	if err := up.Start(); err != nil {
		return err
	}
	defer func() {
		_ = up.Process.Signal(syscall.SIGTERM)
		_ = up.Wait()
	}()
	admin, err := waitReady(ctx, dir)
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		return fmt.Errorf("%w\n%s", err, text)
	}
	c, err := fill(ctx, s, dir, server, admin)
	if err != nil {
		return err
	}
	fmt.Printf("priority and fairness %s\n", map[bool]string{true: "on", false: "off"}[fair])
	if err := c.run(ctx, s, "quiet", s.length/3); err != nil {
		return err
	}
	flooder := exec.Command("nice", os.Args[0], "-flooder", dir, "-server", server, "-lists", strconv.Itoa(s.lists))
	flooder.Stdout, flooder.Stderr = os.Stdout, os.Stderr
	if err := flooder.Start(); err != nil {
		return err
	}
	time.Sleep(5 * time.Second) // until all of them are under way
	err = c.run(ctx, s, "flooded", s.length)
	_ = flooder.Process.Signal(os.Interrupt)
	return errors.Join(err, flooder.Wait())
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func waitReady(ctx context.Context, dir string) (*kubernetes.Clientset, error) {
	for range 300 {
		config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "admin.conf"))
		if err == nil {
			config.QPS = -1
			client, err := kubernetes.NewForConfig(config)
			if err != nil {
				return nil, err
			}
			if _, err := client.RESTClient().Get().AbsPath("/readyz").DoRaw(ctx); err == nil {
				return client, nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, errors.New("the server does not get ready")
}

// clients are those whose latency counts.
type clients struct {
	admin, scheduler *kubernetes.Clientset
	kubelets         []*kubernetes.Clientset
	pods             int // made so far
}

func nodeName(i int) string { return fmt.Sprintf("flood-%02d", i) }

// fill makes what is listed and what is worked on, and the identities.
func fill(ctx context.Context, s settings, dir, server string, admin *kubernetes.Clientset) (*clients, error) {
	ca, err := loadAuthority(dir)
	if err != nil {
		return nil, err
	}
	c := &clients{admin: admin}
	if c.scheduler, err = ca.client(server, "system:kube-scheduler"); err != nil {
		return nil, err
	}
	if err := ca.write(dir, "flooder", "flooder"); err != nil {
		return nil, err
	}
	if _, err := admin.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "flood"}}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "flooder"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "flooder"}},
	}, metav1.CreateOptions{}); err != nil {
		return nil, err
	}
	text := strings.Repeat("0123456789abcdef", 256)
	for i := range s.configMaps {
		if _, err := admin.CoreV1().ConfigMaps("flood").Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("c-%05d", i)}, Data: map[string]string{"text": text}}, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
	}
	for i := range s.nodes {
		kubelet, err := ca.client(server, "system:node:"+nodeName(i), "system:nodes")
		if err != nil {
			return nil, err
		}
		c.kubelets = append(c.kubelets, kubelet)
		if _, err := kubelet.CoreV1().Nodes().Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)}}, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("create node: %w", err)
		}
		if _, err := kubelet.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(nodeName(i)), LeaseDurationSeconds: ptr.To(int32(40))},
		}, metav1.CreateOptions{}); err != nil {
			return nil, fmt.Errorf("create lease: %w", err)
		}
	}
	return c, nil
}

// pace is how often each client does its work.
const pace = 200 * time.Millisecond

// run has all clients work for a while and prints how long they took.
func (c *clients) run(ctx context.Context, s settings, phase string, length time.Duration) error {
	// The pods to bind are made before: who makes them is not what is measured. No scheduler knows them.
	binds := int(length/pace) + 1
	first := c.pods
	for range binds {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p-%05d", c.pods), Namespace: "flood"},
			Spec:       corev1.PodSpec{SchedulerName: "flood", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		if _, err := c.admin.CoreV1().Pods("flood").Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("create pod: %w", err)
		}
		c.pods++
	}
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var heartbeats, reads, bound latencies
	var wg sync.WaitGroup
	for i, kubelet := range c.kubelets {
		wg.Go(func() {
			heartbeats.repeat(ctx, func(ctx context.Context) error {
				lease := &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Name: nodeName(i)},
					Spec:       coordinationv1.LeaseSpec{HolderIdentity: ptr.To(nodeName(i)), LeaseDurationSeconds: ptr.To(int32(40)), RenewTime: ptr.To(metav1.NowMicro())},
				}
				now, err := kubelet.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, nodeName(i), metav1.GetOptions{})
				if err != nil {
					return err
				}
				lease.ResourceVersion = now.ResourceVersion
				_, err = kubelet.CoordinationV1().Leases(corev1.NamespaceNodeLease).Update(ctx, lease, metav1.UpdateOptions{})
				return err
			})
		})
		wg.Go(func() {
			reads.repeat(ctx, func(ctx context.Context) error {
				_, err := kubelet.CoreV1().Nodes().Get(ctx, nodeName(i), metav1.GetOptions{})
				return err
			})
		})
	}
	next := first
	wg.Go(func() {
		bound.repeat(ctx, func(ctx context.Context) error {
			name := fmt.Sprintf("p-%05d", next)
			next++
			return c.scheduler.CoreV1().Pods("flood").Bind(ctx, &corev1.Binding{
				ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "flood"}, Target: corev1.ObjectReference{Kind: "Node", Name: nodeName(0)},
			}, metav1.CreateOptions{})
		})
	})
	wg.Wait()
	for _, l := range []struct {
		name string
		l    *latencies
	}{{"heartbeats", &heartbeats}, {"node reads", &reads}, {"binds", &bound}} {
		fmt.Printf("    %-8s %-11s %s\n", phase, l.name, l.l)
	}
	return nil
}

// latencies are how long requests took that succeeded.
type latencies struct {
	mu     sync.Mutex
	took   []time.Duration
	failed int
	err    error // the first
}

// repeat does work at a pace until ctx ends. What is under way then is not counted, unless it has taken longer than a second.
func (l *latencies) repeat(ctx context.Context, do func(context.Context) error) {
	ticker := time.NewTicker(pace)
	defer ticker.Stop()
	for {
		began := time.Now()
		err := do(ctx)
		took := time.Since(began)
		l.mu.Lock()
		switch {
		case ctx.Err() != nil && took < time.Second:
		case err == nil || ctx.Err() != nil:
			l.took = append(l.took, took)
		default:
			l.failed++
			if l.err == nil {
				l.err = err
			}
		}
		l.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (l *latencies) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.took) == 0 {
		return fmt.Sprintf("none succeeded, %d failed: %v", l.failed, l.err)
	}
	slices.Sort(l.took)
	at := func(q float64) time.Duration {
		return l.took[int(q*float64(len(l.took)-1))].Round(100 * time.Microsecond)
	}
	text := fmt.Sprintf("p50 %8s   p99 %8s   max %8s   (%d)", at(0.5), at(0.99), at(1), len(l.took))
	if l.failed > 0 {
		text += fmt.Sprintf(", %d failed: %v", l.failed, l.err)
	}
	return text
}
