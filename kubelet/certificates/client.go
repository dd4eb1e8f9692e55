package certificates

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"vigil/pki"
)

// currentCert is the file with a kubelet's certificate and key, as upstream names it.
const currentCert = "kubelet-client-current.pem"

// Client is the client certificate by which the API server knows a kubelet.
type Client struct {
	Kubeconfig          string // names the certificate
	BootstrapKubeconfig string // with which a certificate is asked for when Kubeconfig is not there; "": Kubeconfig is there
	Dir                 string // where certificates are kept that were asked for; "": pki beside Kubeconfig
	NodeName            string
	Logger              *slog.Logger
}

// Bootstrap sees to it that Kubeconfig is there with a certificate that has not ended: when it is not, BootstrapKubeconfig is good
// for asking for one. It goes on asking until ctx ends.
func (c *Client) Bootstrap(ctx context.Context) error {
	if c.BootstrapKubeconfig == "" {
		return nil
	}
	cert, err := kubeconfigCertificate(c.Kubeconfig)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kubelet %s: %w", c.NodeName, err)
	}
	if err == nil && time.Now().Before(cert.NotAfter) {
		return nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", c.BootstrapKubeconfig)
	if err != nil {
		return fmt.Errorf("kubelet %s: %w", c.NodeName, err)
	}
	for {
		err := c.newCertificate(ctx, config)
		if err == nil {
			break
		}
		c.Logger.Warn("the kubelet did not get a client certificate; it asks again", "node", c.NodeName, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(certRetry):
		}
	}
	return c.writeKubeconfig()
}

// writeKubeconfig writes Kubeconfig: the cluster of BootstrapKubeconfig with the certificate that was got.
func (c *Client) writeKubeconfig() error {
	from, err := clientcmd.LoadFromFile(c.BootstrapKubeconfig)
	if err != nil {
		return err
	}
	current := from.Contexts[from.CurrentContext]
	if current == nil || from.Clusters[current.Cluster] == nil {
		return fmt.Errorf("kubeconfig %s names no cluster", c.BootstrapKubeconfig)
	}
	cluster := *from.Clusters[current.Cluster]
	if cluster.CertificateAuthority != "" && len(cluster.CertificateAuthorityData) == 0 {
		if err := clientcmd.RelativizeClusterLocalPaths(&cluster); err != nil {
			return err
		}
	}
	file, err := filepath.Abs(c.File())
	if err != nil {
		return err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters["default-cluster"] = &cluster
	config.AuthInfos["default-auth"] = &clientcmdapi.AuthInfo{ClientCertificate: file, ClientKey: file}
	config.Contexts["default-context"] = &clientcmdapi.Context{Cluster: "default-cluster", AuthInfo: "default-auth", Namespace: "default"}
	config.CurrentContext = "default-context"
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return pki.WriteFile(c.Kubeconfig, data, 0o600)
}

// File is the file with the certificate and its key.
func (c *Client) File() string {
	dir := c.Dir
	if dir == "" {
		dir = filepath.Join(filepath.Dir(c.Kubeconfig), "pki")
	}
	return filepath.Join(dir, currentCert)
}

// Rotate asks for a new certificate when most of the present one's life is over, until ctx ends. Who uses Kubeconfig by
// pki.ClientConfig takes it over.
func (c *Client) Rotate(ctx context.Context) error {
	var asked time.Time
	for {
		wait := certRetry
		cert, err := kubeconfigCertificate(c.Kubeconfig)
		if err == nil { // an authority near its end gives certificates that are old already
			wait = max(time.Until(rotationTime(cert)), certRetry-time.Since(asked))
		}
		if wait > 0 {
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(wait):
			}
			continue
		}
		asked = time.Now()
		config, err := pki.ClientConfig(c.Kubeconfig, nil)
		if err == nil {
			err = c.newCertificate(ctx, config)
		}
		if err == nil {
			c.Logger.Info("the kubelet has a new client certificate", "node", c.NodeName)
			continue
		}
		if ctx.Err() != nil {
			return nil
		}
		c.Logger.Warn("the kubelet could not renew its client certificate; it tries again until the one it has ends", "node", c.NodeName, "error", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(min(certRetry, time.Until(cert.NotAfter)/4+time.Second)):
		}
	}
}

// newCertificate asks for a client certificate, waits until it is signed, and puts it into the file.
func (c *Client) newCertificate(ctx context.Context, config *rest.Config) error {
	config = rest.CopyConfig(config)
	config.UserAgent, config.WarningHandler = "kubelet", rest.NoWarnings{}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	r := request{
		signer: certificatesv1.KubeAPIServerClientKubeletSignerName, usage: certificatesv1.UsageClientAuth, node: c.NodeName, file: c.File(),
	}
	return r.send(ctx, client)
}

// kubeconfigCertificate is the client certificate of a kubeconfig.
func kubeconfigCertificate(file string) (*x509.Certificate, error) {
	if _, err := os.Stat(file); err != nil {
		return nil, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, err
	}
	if err := rest.LoadTLSFiles(config); err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		return nil, fmt.Errorf("client certificate of %s: %w", file, err)
	}
	return x509.ParseCertificate(pair.Certificate[0])
}
