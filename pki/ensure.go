package pki

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// Ensure makes the certificates, keys and kubeconfigs of config that are missing, about to expire, or
// that lack a name or address which config asks for. It is idempotent. It fails with ErrDamaged rather than replace a
// file that it does not understand, and with ErrLost rather than make anew what a cluster that has data cannot do without.
func Ensure(config Config) (*Set, error) {
	return ensure(config, time.Now())
}

// Keep renews what is about to expire, until ctx ends. Who has the files in use sees the change: servers and clients of this
// package within a second. log hears of what was renewed and of failures, which are tried again.
func Keep(ctx context.Context, config Config, log *slog.Logger) error {
	subject := Subject{Life: config.Life}
	ticker := time.NewTicker(min(time.Hour, subject.life()/12))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		set, err := Ensure(config)
		switch {
		case err != nil:
			log.Warn("the certificates of the cluster could not be renewed; that is tried again until they end", "error", err)
		case len(set.Made) > 0:
			log.Info("the certificates of the cluster were renewed", "files", set.Made)
		}
	}
}

// Set is what Ensure leaves: the files, and the authorities to issue more from.
type Set struct {
	Dir        string // the data directory
	Cluster    *Pair  // signs clients of the API server and its serving certificate
	Etcd       *Pair
	FrontProxy *Pair
	Made       []string // files made or renewed this time, relative to Dir
}

// Path is the place of a file below the pki directory: Path("apiserver.crt").
func (s *Set) Path(name string) string { return filepath.Join(s.Dir, "pki", name) }

func ensure(config Config, now time.Time) (*Set, error) {
	config = config.withDefaults()
	set := &Set{Dir: config.Dir}
	byName := map[string]*Pair{}
	for _, row := range authorities {
		ca, err := set.ensureAuthority(row.file, row.commonName, now)
		if err != nil {
			return nil, err
		}
		byName[row.file] = ca
	}
	set.Cluster, set.Etcd, set.FrontProxy = byName[clusterCA], byName[etcdCA], byName[frontProxyCA]
	for _, row := range leaves(config) {
		row.subject.Life = config.Life
		if err := set.ensureLeaf(row, byName[row.ca], now); err != nil {
			return nil, err
		}
	}
	if err := set.ensureServiceAccountKey(); err != nil {
		return nil, err
	}
	if err := set.ensureKubeconfigs(config, now); err != nil {
		return nil, err
	}
	return set, nil
}

func (s *Set) ensureAuthority(file, commonName string, now time.Time) (*Pair, error) {
	ca, err := load(s.Path(file))
	if err == nil {
		switch {
		case !ca.Cert.IsCA:
			return nil, fmt.Errorf("certificate %s.crt is %w: it is not a certificate authority", s.Path(file), ErrDamaged)
		case now.After(ca.Cert.NotAfter):
			return nil, fmt.Errorf("certificate authority %s.crt expired on %s", s.Path(file), ca.Cert.NotAfter.Format(time.DateOnly))
		}
		return ca, nil
	}
	missing := errors.Is(err, fs.ErrNotExist)
	if file != frontProxyCA { // that is known to servers of APIs only, which read it from the cluster
		switch hasData, statErr := s.hasData(); {
		case statErr != nil:
			return nil, statErr
		case hasData && missing:
			return nil, fmt.Errorf("%w: certificate authority %[2]s.crt with its key %[2]s.key; a new one would lock out all nodes, users and other clients that have certificates of the old one: "+
				"restore both from a backup, or, to lose all objects and begin anew, remove %[3]s", ErrLost, s.Path(file), s.Dir)
		case hasData && errors.Is(err, ErrDamaged):
			return nil, fmt.Errorf("%w; restore both files from a backup, or, to lose all objects and begin anew, remove %s", err, s.Dir)
		}
	}
	if !missing && !errors.Is(err, errHalf) {
		return nil, removable(err, s.Path(file))
	}
	ca, err = NewAuthority(commonName, now)
	if err != nil {
		return nil, err
	}
	s.made("pki/" + file + ".crt")
	return ca, ca.save(s.Path(file))
}

func (s *Set) ensureLeaf(row leaf, ca *Pair, now time.Time) error {
	have, err := load(s.Path(row.file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, errHalf) {
		return removable(err, s.Path(row.file))
	}
	if err == nil && serves(have.Cert, ca, row.subject, now) {
		return nil
	}
	pair, err := ca.Issue(row.subject, now)
	if err != nil {
		return err
	}
	s.made("pki/" + row.file + ".crt")
	return pair.save(s.Path(row.file))
}

// hasData says whether the embedded etcd has a database here: then there is a cluster that trusts what lies in the pki directory. Of an etcd
// elsewhere it knows nothing.
func (s *Set) hasData() (bool, error) {
	_, err := os.Stat(filepath.Join(s.Dir, "etcd", "member", "snap", "db"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("find out whether %s has the data of a cluster: %w", s.Dir, err)
	}
	return true, nil
}

// removable adds to the error about a damaged pair what the user can do.
func removable(err error, base string) error {
	if !errors.Is(err, ErrDamaged) {
		return err
	}
	return fmt.Errorf("%w; remove %[2]s.crt and %[2]s.key, and the next start makes new ones", err, base)
}

// serves says whether cert still does for subject: signed by ca, not about to expire, same identity, all names.
func serves(cert *x509.Certificate, ca *Pair, subject Subject, now time.Time) bool {
	if cert.CheckSignatureFrom(ca.Cert) != nil || now.Add(renewBefore(subject.life())).After(cert.NotAfter) || now.Before(cert.NotBefore) {
		return false
	}
	if cert.Subject.CommonName != subject.CommonName || !slices.Equal(cert.Subject.Organization, subject.Organizations) {
		return false
	}
	for _, name := range subject.DNSNames {
		if !slices.Contains(cert.DNSNames, name) {
			return false
		}
	}
	for _, ip := range subject.IPs {
		if !slices.ContainsFunc(cert.IPAddresses, ip.Equal) {
			return false
		}
	}
	return true
}

// ensureServiceAccountKey makes sa.key, and sa.pub for those who check tokens elsewhere.
func (s *Set) ensureServiceAccountKey() error {
	hasData, err := s.hasData()
	if err != nil {
		return err
	}
	var key crypto.Signer
	data, err := os.ReadFile(s.Path("sa.key"))
	switch {
	case err == nil:
		if key, err = parseKey(data); err != nil {
			todo := "remove it, and the next start makes a new one"
			if hasData {
				todo = "restore it from a backup; if there is none, put a new private key (PEM) in its place: all tokens of service accounts end then, and pods need new ones"
			}
			return fmt.Errorf("key %s is %w: %w; %s", s.Path("sa.key"), ErrDamaged, err, todo)
		}
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case hasData:
		return fmt.Errorf("%w: key %[2]s, which signs the tokens of service accounts; with a new one all of them would end: "+
			"restore it from a backup; if there is none, put a new private key (PEM) in its place and restart the pods", ErrLost, s.Path("sa.key"))
	default:
		if key, err = newKey(); err != nil {
			return err
		}
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	publicPEM := pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})
	has, err := hasPublicKey(s.Path("sa.pub"), key.Public())
	if err != nil {
		return err
	}
	if !has {
		s.made("pki/sa.pub")
		if err := writeFile(s.Path("sa.pub"), publicPEM, 0o644); err != nil {
			return err
		}
	}
	if data != nil {
		return nil
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	s.made("pki/sa.key")
	return writeFile(s.Path("sa.key"), private, 0o600)
}

func (s *Set) made(file string) { s.Made = append(s.Made, file) }

// hasPublicKey says whether a file has the key among its public keys. One that is missing, or is no such file, has none.
func hasPublicKey(path string, key crypto.PublicKey) (bool, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	keys, err := keyutil.ParsePublicKeysPEM(data)
	if err != nil {
		return false, nil
	}
	wanted, ok := key.(interface{ Equal(crypto.PublicKey) bool })
	return ok && slices.ContainsFunc(keys, func(have any) bool { return wanted.Equal(have) }), nil
}
