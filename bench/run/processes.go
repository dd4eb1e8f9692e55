package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// process is a server that runs until it is stopped.
type process struct {
	cmd  *exec.Cmd
	name string
	done chan struct{} // closed when it has ended
}

func (e *environment) start(name string, args ...string) (*process, error) {
	log, err := os.OpenFile(filepath.Join(e.out, "log", name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	fmt.Fprintf(log, "+ %v\n", args)
	p := &process{name: name, cmd: exec.Command(args[0], args[1:]...), done: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() { defer close(p.done); _ = p.cmd.Wait() }()
	return p, nil
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// stop asks the process to end and makes it after grace.
func (p *process) stop(grace time.Duration) {
	if p == nil {
		return
	}
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.done:
	case <-time.After(grace):
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

// kill ends the process at once.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

func (e *environment) startEtcd(ctx context.Context, data string) (*process, error) {
	peerURL := fmt.Sprintf("http://127.0.0.1:%d", e.etcdPeerPort)
	p, err := e.start("etcd", e.bin("etcd"), "--data-dir", data, "--name", "bench",
		"--listen-client-urls", e.etcdURL(), "--advertise-client-urls", e.etcdURL(),
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL, "--initial-cluster", "bench="+peerURL,
		"--quota-backend-bytes", "8589934592", "--log-level", "error")
	if err != nil {
		return nil, err
	}
	if _, err := await(ctx, p, http.DefaultClient, e.etcdURL()+"/health", time.Minute); err != nil {
		p.stop(time.Second)
		return nil, err
	}
	return p, nil
}

// startup is what it took a server to become ready.
type startup struct{ listening, ready time.Duration }

func (e *environment) startServer(ctx context.Context, server string) (*process, startup, error) {
	var args []string
	switch server {
	case peer:
		args = []string{e.bin("peer"), "--etcd", e.etcdURL(), "--addr", fmt.Sprintf("127.0.0.1:%d", e.port), "--pki", e.pki("")}
	case vigil:
		args = append([]string{e.vigil, "apiserver", "--etcd-servers=" + e.etcdURL(), "--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", e.port),
			"--tls-cert-file=" + e.pki("server.crt"), "--tls-private-key-file=" + e.pki("server.key"), "--client-ca-file=" + e.pki("ca.crt")}, e.vigilFlags...)
	default:
		return nil, startup{}, fmt.Errorf("unknown server %q", server)
	}
	client, err := e.client()
	if err != nil {
		return nil, startup{}, err
	}
	defer client.CloseIdleConnections()
	p, err := e.start(server, args...)
	if err != nil {
		return nil, startup{}, err
	}
	took, err := await(ctx, p, client, e.url()+"/readyz", 3*time.Minute)
	if err != nil {
		p.stop(time.Second)
	}
	return p, took, err
}

// client speaks to the server as its administrator.
func (e *environment) client() (*http.Client, error) {
	ca, err := os.ReadFile(e.pki("ca.crt"))
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	pair, err := tls.LoadX509KeyPair(e.pki("admin.crt"), e.pki("admin.key"))
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}}}, nil
}

// await polls url every 3 ms until it answers 200.
func await(ctx context.Context, p *process, client *http.Client, url string, limit time.Duration) (startup, error) {
	begin := time.Now()
	var s startup
	for time.Since(begin) < limit {
		request, cancel := context.WithTimeout(ctx, 5*time.Second)
		req, err := http.NewRequestWithContext(request, http.MethodGet, url, nil)
		if err != nil {
			cancel()
			return s, err
		}
		resp, err := client.Do(req)
		if err == nil {
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
		cancel()
		var refused *net.OpError
		if s.listening == 0 && (err == nil || !errors.As(err, &refused)) {
			s.listening = time.Since(begin)
		}
		if err == nil && resp.StatusCode == http.StatusOK {
			s.ready = time.Since(begin)
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-p.done:
			return s, fmt.Errorf("%s ended: %v (see out/log/%s.log)", p.name, p.cmd.ProcessState, p.name)
		case <-time.After(3 * time.Millisecond):
		}
	}
	return s, fmt.Errorf("%s is not ready after %v", p.name, limit)
}
