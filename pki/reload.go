package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// lookEvery is how often files in use are looked at for changes. A look is a stat of each file, made by whoever needs what
// is in them; nothing runs in between.
const lookEvery = time.Second

// watched are files whose content is in use, read again when they change. What is in use stays so while they cannot be
// read: between the writes of a key and of its certificate, for one, they do not fit.
type watched struct {
	names []string
	load  func() error
	log   *slog.Logger
	every time.Duration

	next atomic.Int64 // when to look again, in nanoseconds since 1970

	mu     sync.Mutex
	loaded []stamp
	failed []stamp // what a complaint was made of
}

// stamp tells one content of a file from another.
type stamp struct {
	changed time.Time
	size    int64
}

func watch(log *slog.Logger, load func() error, names ...string) (*watched, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	w := &watched{names: names, load: load, log: log, every: lookEvery}
	var err error
	if w.loaded, err = w.stamps(); err != nil {
		return nil, err
	}
	w.next.Store(time.Now().Add(w.every).UnixNano())
	return w, load()
}

// look reads the files again when it is time to look and they have changed. Of several callers at once, one looks.
func (w *watched) look() {
	now, next := time.Now().UnixNano(), w.next.Load()
	if now < next || !w.next.CompareAndSwap(next, now+int64(w.every)) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	stamps, err := w.stamps()
	if err == nil && same(stamps, w.loaded) {
		return
	}
	if err == nil {
		err = w.load()
	}
	if err == nil {
		w.loaded, w.failed = stamps, nil
		w.log.Info("changed files of certificates or credentials were taken over", "files", w.names)
		return
	}
	if w.failed == nil || !same(stamps, w.failed) {
		w.log.Warn("changed files of certificates or credentials cannot be used; what was in them before stays in use", "files", w.names, "error", err)
	}
	if w.failed = stamps; stamps == nil {
		w.failed = []stamp{}
	}
}

func (w *watched) stamps() ([]stamp, error) {
	out := make([]stamp, len(w.names))
	for i, name := range w.names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, err
		}
		out[i] = stamp{info.ModTime(), info.Size()}
	}
	return out, nil
}

func same(a, b []stamp) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !a[i].changed.Equal(b[i].changed) || a[i].size != b[i].size {
			return false
		}
	}
	return true
}

// KeyPair is a certificate and its key in two PEM files. A change of the files is seen within a second by who asks after it;
// connections that are open stay so.
type KeyPair struct {
	files *watched
	now   atomic.Pointer[tls.Certificate]
}

// NewKeyPair reads a certificate with its chain and its key. log hears of changes, and may be nil.
func NewKeyPair(certFile, keyFile string, log *slog.Logger) (*KeyPair, error) {
	p := &KeyPair{}
	var err error
	p.files, err = watch(log, func() error {
		pair, err := tls.LoadX509KeyPair(certFile, keyFile)
		if err != nil {
			return err
		}
		p.now.Store(&pair)
		return nil
	}, certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load certificate %s with key %s: %w", certFile, keyFile, err)
	}
	return p, nil
}

// Certificate is what the files hold now. It is shared: do not change it.
func (p *KeyPair) Certificate() *tls.Certificate {
	p.files.look()
	return p.now.Load()
}

// GetCertificate is a tls.Config's.
func (p *KeyPair) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return p.Certificate(), nil
}

// GetClientCertificate is a tls.Config's.
func (p *KeyPair) GetClientCertificate(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	return p.Certificate(), nil
}

// Bundle is the certificate authorities in a PEM file, seen again within a second when the file changes.
type Bundle struct {
	file  string
	files *watched
	pool  atomic.Pointer[x509.CertPool]
	pem   atomic.Pointer[[]byte]
}

// NewBundle reads the authorities of a file. log hears of changes, and may be nil.
func NewBundle(file string, log *slog.Logger) (*Bundle, error) {
	b := &Bundle{file: file}
	var err error
	b.files, err = watch(log, func() error {
		data, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(data) {
			return errors.New("no certificate in it")
		}
		b.pem.Store(&data)
		b.pool.Store(pool)
		return nil
	}, file)
	if err != nil {
		return nil, fmt.Errorf("load certificate authorities %s: %w", file, err)
	}
	return b, nil
}

// BundleOf is a bundle of authorities that are in no file. It never changes.
func BundleOf(pem []byte) (*Bundle, error) {
	b, pool := &Bundle{}, x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("no certificate in it")
	}
	b.pem.Store(&pem)
	b.pool.Store(pool)
	return b, nil
}

// Pool is the authorities that the file holds now. As long as they stay the same it is the same pointer. It is shared: do not
// change it.
func (b *Bundle) Pool() *x509.CertPool {
	if b.files != nil {
		b.files.look()
	}
	return b.pool.Load()
}

// PEM is the file's content of now. Do not change it.
func (b *Bundle) PEM() []byte {
	if b.files != nil {
		b.files.look()
	}
	return *b.pem.Load()
}
