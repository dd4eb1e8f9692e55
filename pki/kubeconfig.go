package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ClusterName and contexts as kubeadm writes them: cluster kubernetes, context USER@kubernetes.
const ClusterName = "kubernetes"

// Kubeconfig makes a kubeconfig for a client certificate issued now to subject, pointing at server.
func (s *Set) Kubeconfig(subject Subject, user, server string) (*clientcmdapi.Config, error) {
	return s.kubeconfig(subject, user, server, time.Now())
}

func (s *Set) kubeconfig(subject Subject, user, server string, now time.Time) (*clientcmdapi.Config, error) {
	pair, err := s.Cluster.Issue(subject, now)
	if err != nil {
		return nil, err
	}
	key, err := pair.KeyPEM()
	if err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[ClusterName] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: s.Cluster.CertPEM()}
	config.AuthInfos[user] = &clientcmdapi.AuthInfo{ClientCertificateData: pair.CertPEM(), ClientKeyData: key}
	config.CurrentContext = user + "@" + ClusterName
	config.Contexts[config.CurrentContext] = &clientcmdapi.Context{Cluster: ClusterName, AuthInfo: user}
	return config, nil
}

// writersLimit is how many kubeconfigs are made at once: each waits for the disk, and a cluster may have thousands of nodes.
const writersLimit = 32

// ensureKubeconfigs makes the kubeconfigs that are missing or do not serve any more.
func (s *Set) ensureKubeconfigs(config Config, now time.Time) error {
	rows := identities(config)
	made := make([]bool, len(rows))
	var group errgroup.Group
	group.SetLimit(writersLimit)
	for i, row := range rows {
		row.subject.Life = config.Life
		group.Go(func() (err error) {
			made[i], err = s.ensureKubeconfig(row, config.Server, now)
			return err
		})
	}
	err := group.Wait()
	for i, row := range rows {
		if made[i] {
			s.made(row.file)
		}
	}
	return err
}

func (s *Set) ensureKubeconfig(row identity, server string, now time.Time) (made bool, err error) {
	file := filepath.Join(s.Dir, row.file)
	ok, err := s.kubeconfigServes(file, row, server, now)
	if err != nil || ok {
		return false, err
	}
	config, err := s.kubeconfig(row.subject, row.user, server, now)
	if err != nil {
		return false, err
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return false, fmt.Errorf("encode %s: %w", file, err)
	}
	return true, writeFile(file, data, 0o600)
}

// kubeconfigServes says whether file points at server with a certificate that still does for row.
func (s *Set) kubeconfigServes(file string, row identity, server string, now time.Time) (bool, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	config, err := clientcmd.Load(data)
	if err != nil {
		return false, fmt.Errorf("kubeconfig %s is %w: %w", file, ErrDamaged, err)
	}
	user, cluster := config.AuthInfos[row.user], config.Clusters[ClusterName]
	if user == nil || cluster == nil {
		return false, fmt.Errorf("kubeconfig %s is %w: it lacks user %q or cluster %q", file, ErrDamaged, row.user, ClusterName)
	}
	cert, err := parseCertificate(user.ClientCertificateData)
	if err != nil {
		return false, fmt.Errorf("kubeconfig %s is %w: client certificate: %w", file, ErrDamaged, err)
	}
	current := cluster.Server == server && string(cluster.CertificateAuthorityData) == string(s.Cluster.CertPEM())
	return current && serves(cert, s.Cluster, row.subject, now), nil
}

// Merge puts the current context of the kubeconfig file from into the kubeconfig file into, under name, and makes it the
// current one there. What into holds besides stays; into is created when missing.
func Merge(from, into, name string) error {
	source, err := clientcmd.LoadFromFile(from)
	if err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", from, err)
	}
	target, err := clientcmd.LoadFromFile(into)
	if errors.Is(err, fs.ErrNotExist) {
		target = clientcmdapi.NewConfig()
	} else if err != nil {
		return fmt.Errorf("read kubeconfig %s: %w", into, err)
	}
	context := source.Contexts[source.CurrentContext]
	if context == nil {
		return fmt.Errorf("kubeconfig %s has no current context", from)
	}
	target.Clusters[name] = source.Clusters[context.Cluster]
	target.AuthInfos[name] = source.AuthInfos[context.AuthInfo]
	target.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	target.CurrentContext = name
	data, err := clientcmd.Write(*target)
	if err != nil {
		return fmt.Errorf("encode kubeconfig %s: %w", into, err)
	}
	return writeFile(into, data, 0o600)
}
