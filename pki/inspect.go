package pki

import (
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Found is a certificate in a data directory.
type Found struct {
	Name      string            // of the file relative to the data directory, without .crt: "pki/apiserver", "admin.conf"
	Cert      *x509.Certificate // nil with Err
	Authority string            // Name of the one that has signed it, "" when that is not there; of an authority: its own
	Err       error             // why the certificate cannot be read
}

// Ended says whether the certificate is no good at a time.
func (f *Found) Ended(at time.Time) bool { return f.Err != nil || at.After(f.Cert.NotAfter) }

// Inspect finds all certificates of a data directory: those in files, authorities first, and those in kubeconfigs.
func Inspect(dir string) ([]Found, error) {
	var all []Found
	err := filepath.WalkDir(filepath.Join(dir, "pki"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".crt" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, strings.TrimSuffix(path, ".crt"))
		if err != nil {
			return err
		}
		found := Found{Name: name}
		found.Cert, found.Err = parseCertificate(data)
		all = append(all, found)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("look for certificates: %w", err)
	}
	slices.SortFunc(all, func(a, b Found) int {
		if a.authority() != b.authority() {
			if a.authority() {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
	for _, pattern := range []string{"*.conf", "nodes/*/*.conf"} {
		files, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			name, err := filepath.Rel(dir, file)
			if err != nil {
				return nil, err
			}
			found := Found{Name: name}
			_, user, err := kubeconfigUser(file)
			if err == nil {
				found.Cert, err = parseCertificate(user.ClientCertificateData)
			}
			found.Err = err
			all = append(all, found)
		}
	}
	for i := range all {
		for j := range all {
			if all[i].Err == nil && all[j].authority() && all[i].Cert.CheckSignatureFrom(all[j].Cert) == nil {
				all[i].Authority = all[j].Name
			}
		}
	}
	return all, nil
}

func (f *Found) authority() bool { return f.Err == nil && f.Cert.IsCA }

// kubeconfigUser is the user of a kubeconfig's current context.
func kubeconfigUser(file string) (*clientcmdapi.Config, *clientcmdapi.AuthInfo, error) {
	config, err := clientcmd.LoadFromFile(file)
	if err != nil {
		return nil, nil, err
	}
	context := config.Contexts[config.CurrentContext]
	if context == nil || config.AuthInfos[context.AuthInfo] == nil {
		return nil, nil, errors.New("no user in it")
	}
	return config, config.AuthInfos[context.AuthInfo], nil
}

// Renew makes certificates of a data directory anew, for the same subject and by the same authority, with new keys. names are as in
// Found; none: all. Authorities are never renewed: everything that trusts them would have to change at once. It returns the
// names of what was renewed.
func Renew(dir string, names ...string) ([]string, error) {
	all, err := Inspect(dir)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if !slices.ContainsFunc(all, func(f Found) bool { return f.Name == name && !f.authority() }) {
			return nil, fmt.Errorf("%s has no certificate %s that can be renewed", dir, name)
		}
	}
	var renewed []string
	for _, found := range all {
		switch {
		case found.authority(), len(names) > 0 && !slices.Contains(names, found.Name):
			continue
		case found.Err != nil:
			return renewed, fmt.Errorf("renew %s: %w", found.Name, found.Err)
		case found.Authority == "":
			return renewed, fmt.Errorf("renew %s: the authority that has signed it is not there", found.Name)
		}
		if err := renew(dir, &found, time.Now()); err != nil {
			return renewed, fmt.Errorf("renew %s: %w", found.Name, err)
		}
		renewed = append(renewed, found.Name)
	}
	return renewed, nil
}

func renew(dir string, found *Found, now time.Time) error {
	ca, err := load(filepath.Join(dir, found.Authority))
	if err != nil {
		return err
	}
	pair, err := ca.Issue(Subject{
		CommonName: found.Cert.Subject.CommonName, Organizations: found.Cert.Subject.Organization,
		DNSNames: found.Cert.DNSNames, IPs: found.Cert.IPAddresses,
		Server: slices.Contains(found.Cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth),
		Client: slices.Contains(found.Cert.ExtKeyUsage, x509.ExtKeyUsageClientAuth),
	}, now)
	if err != nil {
		return err
	}
	file := filepath.Join(dir, found.Name)
	if filepath.Ext(file) != ".conf" {
		return pair.save(file)
	}
	config, user, err := kubeconfigUser(file)
	if err != nil {
		return err
	}
	key, err := pair.KeyPEM()
	if err != nil {
		return err
	}
	user.ClientCertificateData, user.ClientKeyData = pair.CertPEM(), key
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeFile(file, data, 0o600)
}
