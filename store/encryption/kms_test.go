package encryption_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	kmsapi "k8s.io/kms/apis/v2"

	"vigil/store"
	"vigil/store/encryption"
	"vigil/store/storetest"
)

// plugin is a KMS v2 plug-in whose key encrypts by turning bits over.
type plugin struct {
	kmsapi.UnimplementedKeyManagementServiceServer
	keyID   atomic.Pointer[string]
	decrypt atomic.Int32 // calls
}

func flip(b []byte) []byte {
	out := bytes.Clone(b)
	for i := range out {
		out[i] ^= 0xff
	}
	return out
}

func (p *plugin) Status(context.Context, *kmsapi.StatusRequest) (*kmsapi.StatusResponse, error) {
	return &kmsapi.StatusResponse{Version: "v2", Healthz: "ok", KeyId: *p.keyID.Load()}, nil
}

func (p *plugin) Encrypt(_ context.Context, r *kmsapi.EncryptRequest) (*kmsapi.EncryptResponse, error) {
	return &kmsapi.EncryptResponse{Ciphertext: flip(r.Plaintext), KeyId: *p.keyID.Load()}, nil
}

func (p *plugin) Decrypt(_ context.Context, r *kmsapi.DecryptRequest) (*kmsapi.DecryptResponse, error) {
	p.decrypt.Add(1)
	return &kmsapi.DecryptResponse{Plaintext: flip(r.Ciphertext)}, nil
}

func TestKMS(t *testing.T) {
	dir := t.TempDir()
	socket := filepath.Join(dir, "kms.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	p := new(plugin)
	id := "key-1"
	p.keyID.Store(&id)
	server := grpc.NewServer()
	kmsapi.RegisterKeyManagementServiceServer(server, p)
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	}()

	target := storetest.NewTarget(t)
	path := config(t, fmt.Sprintf("secrets -> {kms: {apiVersion: v2, name: vault, endpoint: 'unix://%s'}}, {identity: {}}", socket))
	ready := func() (*store.Store, *encryption.Keys) {
		keys := load(t, path, false)
		for keys.Check(t.Context()) != nil { // the first question to the plug-in is under way
			if t.Context().Err() != nil {
				t.Fatal("the plug-in is never well")
			}
		}
		return open(t, target, keys), keys
	}
	s, _ := ready()
	if _, err := s.Create(t.Context(), secretKey, []byte(plain), 0); err != nil {
		t.Fatal(err)
	}
	stored := raw(t, target, secretKey)
	if !bytes.HasPrefix(stored, []byte("k8s:enc:kms:v2:vault:")) || bytes.Contains(stored, []byte("hunter2")) {
		t.Errorf("etcd holds %.60q", stored)
	}
	everyWayReads(t, s, secretKey, plain)

	// Another server asks the plug-in once, and sees that its key is another one by now.
	id2 := "key-2"
	p.keyID.Store(&id2)
	before := p.decrypt.Load()
	other, _ := ready()
	for range 3 {
		kv, err := other.Get(t.Context(), secretKey)
		if err != nil || kv.Err != nil || !kv.Stale || string(kv.Value) != plain {
			t.Fatalf("another server reads %+v, %v", kv, err)
		}
	}
	if n := p.decrypt.Load() - before; n != 1 {
		t.Errorf("the plug-in was asked to decrypt %d times, want 1", n)
	}
}
