package main

import (
	"fmt"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"vigil/internal/serving"
	"vigil/pki"
)

// servingFlags are upstream's secure serving options of API server, controller manager and scheduler.
type servingFlags struct {
	minVersion   string
	cipherSuites []string
	curves       []int32
	named        []cliflag.NamedCertKey
}

// addTLS adds what `vigil up` has, too.
func (f *servingFlags) addTLS(flags *pflag.FlagSet, c *serving.Config) {
	flags.Var(cliflag.NewNamedCertKeyArray(&f.named), "tls-sni-cert-key", "CERT,KEY[:NAME,...]: a certificate for clients that ask for certain names (default: those in it); may be repeated")
	flags.StringVar(&f.minVersion, "tls-min-version", "", "least TLS version: VersionTLS12 (default) or VersionTLS13")
	flags.StringSliceVar(&f.cipherSuites, "tls-cipher-suites", nil, "cipher suites of TLS 1.2 (default: those with forward secrecy and authenticated encryption)")
	flags.Int32SliceVar(&f.curves, "tls-curve-preferences", nil, "key exchanges that clients may choose from, by IANA number")
	flags.BoolVar(&c.NoHTTP2, "disable-http2-serving", false, "speak HTTP/1.1 only")
	flags.IntVar(&c.MaxStreams, "http2-max-streams-per-connection", 0, "requests and watches under way on a connection; 0: 1000, or what the library has")
	flags.BoolVar(&c.ReusePort, "permit-port-sharing", false, "let several processes listen on the port (SO_REUSEPORT)")
}

// add adds the flags of a component with a process of its own.
func (f *servingFlags) add(flags *pflag.FlagSet, c *serving.Config, dir string) {
	f.addTLS(flags, c)
	flags.StringVar(&c.TLSCertFile, "tls-cert-file", "", "serving certificate with its chain, PEM (default: in --cert-dir)")
	flags.StringVar(&c.TLSKeyFile, "tls-private-key-file", "", "key of the serving certificate, PEM")
	flags.StringVar(&c.CertDir, "cert-dir", dir, "where the serving certificate is, or is made, unless --tls-cert-file names one; without a directory it is made in memory")
}

// fill checks what was given and puts it into c.
func (f *servingFlags) fill(c *serving.Config) error {
	for _, given := range f.named {
		c.TLSNamed = append(c.TLSNamed, pki.NamedPair{CertFile: given.CertFile, KeyFile: given.KeyFile, Names: given.Names})
	}
	if c.MaxStreams < 0 {
		return fmt.Errorf("--http2-max-streams-per-connection value can not be negative")
	}
	curves, err := cliflag.TLSCurvePreferences(f.curves)
	if err != nil {
		return fmt.Errorf("--tls-curve-preferences: %w", err)
	}
	c.TLSCurves = curves
	return parseTLS(f.minVersion, f.cipherSuites, &c.TLSMinVersion, &c.TLSCipherSuites)
}
