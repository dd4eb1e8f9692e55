package pki

import (
	"context"
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
// file that it does not understand.
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
			log.Warn("certificates cannot be renewed", "err", err)
		case len(set.Made) > 0:
			log.Info("certificates were renewed", "files", set.Made)
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
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
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
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
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

func (s *Set) ensureServiceAccountKey() error {
	data, err := os.ReadFile(s.Path("sa.key"))
	if err == nil {
		if _, err := parseKey(data); err != nil {
			return fmt.Errorf("key %s is %w: %w", s.Path("sa.key"), ErrDamaged, err)
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key, err := newKey()
	if err != nil {
		return err
	}
	private, err := keyutil.MarshalPrivateKeyToPEM(key)
	if err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	s.made("pki/sa.key")
	if err := writeFile(s.Path("sa.pub"), pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}), 0o644); err != nil {
		return err
	}
	return writeFile(s.Path("sa.key"), private, 0o600)
}

func (s *Set) made(file string) { s.Made = append(s.Made, file) }
