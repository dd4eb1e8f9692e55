package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
)

const listsPerConnection = 100

// flood keeps lists under way until ctx ends, and prints what became of them.
func flood(ctx context.Context, s settings) error {
	cert, err := tls.LoadX509KeyPair(filepath.Join(s.flooder, "flooder.crt"), filepath.Join(s.flooder, "flooder.key"))
	if err != nil {
		return err
	}
	pem, err := os.ReadFile(filepath.Join(s.flooder, "pki", "ca.crt"))
	if err != nil {
		return err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	var ok, refused, failed atomic.Int64
	var client *http.Client
	var wg sync.WaitGroup
	began := time.Now()
	for i := range s.lists {
		if i%listsPerConnection == 0 {
			client = &http.Client{Transport: &http2.Transport{
				DisableCompression: true,
				TLSClientConfig:    &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: roots, MinVersion: tls.VersionTLS12},
			}}
		}
		wg.Go(func() {
			for ctx.Err() == nil {
				switch code, err := list(ctx, client, s.server); {
				case ctx.Err() != nil: // cut off at the end
				case err != nil:
					failed.Add(1)
				case code == http.StatusOK:
					ok.Add(1)
				case code == http.StatusTooManyRequests:
					refused.Add(1)
				default:
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	seconds := time.Since(began).Seconds()
	fmt.Printf("    the flood: %.0f lists/s answered, %.0f/s refused, %d failed\n", float64(ok.Load())/seconds, float64(refused.Load())/seconds, failed.Load())
	return nil
}

func list(ctx context.Context, client *http.Client, server string) (int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+server+"/api/v1/namespaces/flood/configmaps", nil)
	if err != nil {
		return 0, err
	}
	r.Header.Set("Accept", "application/json")
	resp, err := client.Do(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}
