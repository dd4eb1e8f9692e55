// Command peer is the upstream side of the comparison: the real
// k8s.io/apiserver library (Cacher, etcd3 store, handlers, APF, SSA) serving
// core/v1 pods, nodes and configmaps under /api/v1, configured as
// kube-apiserver configures it.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"vigil/bench/peer/openapi"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/options"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/klog/v2"
)

var (
	scheme = runtime.NewScheme()
	codecs = serializer.NewCodecFactory(scheme)
)

func main() {
	etcd := flag.String("etcd", "http://127.0.0.1:2379", "etcd endpoint")
	addr := flag.String("addr", "127.0.0.1:6443", "listen address")
	pki := flag.String("pki", scratch("pki"), "directory with ca.crt, server.crt, server.key (made by `load pki`)")
	apf := flag.Bool("apf", true, "API priority and fairness with upstream's bootstrap configuration (false: max-in-flight filter)")
	klog.InitFlags(nil)
	flag.Parse()
	if err := run(*etcd, *addr, *pki, *apf); err != nil {
		fmt.Fprintln(os.Stderr, "peer:", err)
		os.Exit(1)
	}
}

func run(etcd, addr, pki string, apf bool) error {
	install(scheme)
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return err
	}

	cfg := server.NewConfig(codecs)
	if err := options.NewServerRunOptions().ApplyTo(cfg); err != nil {
		return err
	}

	serving := options.NewSecureServingOptions()
	serving.BindAddress = net.ParseIP(host)
	if _, err := fmt.Sscan(port, &serving.BindPort); err != nil {
		return err
	}
	serving.ServerCert.CertKey = options.CertKey{CertFile: pki + "/server.crt", KeyFile: pki + "/server.key"}
	if err := serving.WithLoopback().ApplyToConfig(cfg); err != nil {
		return err
	}
	cfg.PublicAddress = serving.BindAddress

	clientCert := options.ClientCertAuthenticationOptions{ClientCA: pki + "/ca.crt"}
	ca, err := clientCert.GetClientCAContentProvider()
	if err != nil {
		return err
	}
	if err := cfg.Authentication.ApplyClientCert(ca, cfg.SecureServing); err != nil {
		return err
	}
	cfg.Authentication.Authenticator, _, err = authenticatorfactory.DelegatingAuthenticatorConfig{ClientCertificateCAContentProvider: ca}.New()
	if err != nil {
		return err
	}
	cfg.Authorization.Authorizer = authorizerfactory.NewAlwaysAllowAuthorizer() // kube-apiserver's default mode

	namer := apiopenapi.NewDefinitionNamer(scheme)
	cfg.OpenAPIConfig = server.DefaultOpenAPIConfig(openapi.GetOpenAPIDefinitions, namer)
	cfg.OpenAPIV3Config = server.DefaultOpenAPIV3Config(openapi.GetOpenAPIDefinitions, namer)

	eo := options.NewEtcdOptions(storagebackend.NewDefaultConfig("/registry", nil))
	eo.StorageConfig.Transport.ServerList = []string{etcd}
	eo.DefaultStorageMediaType = runtime.ContentTypeProtobuf
	eo.StorageConfig.StorageObjectCountTracker = cfg.StorageObjectCountTracker
	factory := serverstorage.NewDefaultStorageFactory(eo.StorageConfig, eo.DefaultStorageMediaType, codecs,
		serverstorage.NewDefaultResourceEncodingConfigForEffectiveVersion(scheme, cfg.EffectiveVersion),
		serverstorage.NewResourceConfig(), map[schema.GroupResource]string{{Resource: "nodes"}: "minions"})
	if err := eo.ApplyWithStorageFactoryTo(factory, cfg); err != nil {
		return err
	}

	// The flowcontrol API is not served here, so APF reads upstream's bootstrap
	// configuration from an in-memory clientset; the filter and its queues are
	// the real ones.
	fo := options.NewFeatureOptions()
	fo.EnablePriorityAndFairness = apf
	var objs []runtime.Object
	for _, o := range bootstrap.MandatoryPriorityLevelConfigurations {
		objs = append(objs, o.DeepCopy())
	}
	for _, o := range bootstrap.SuggestedPriorityLevelConfigurations {
		objs = append(objs, o.DeepCopy())
	}
	for _, o := range bootstrap.MandatoryFlowSchemas {
		objs = append(objs, o.DeepCopy())
	}
	for _, o := range bootstrap.SuggestedFlowSchemas {
		objs = append(objs, o.DeepCopy())
	}
	client := fake.NewClientset(objs...)
	shared := informers.NewSharedInformerFactory(client, 0)
	if err := fo.ApplyTo(cfg, client, shared); err != nil {
		return err
	}

	srv, err := cfg.Complete(shared).New("peer", server.NewEmptyDelegate())
	if err != nil {
		return err
	}
	group := server.NewDefaultAPIGroupInfo("", scheme, runtime.NewParameterCodec(scheme), codecs)
	if group.VersionedResourcesStorageMap["v1"], err = storageMap(scheme, cfg.RESTOptionsGetter); err != nil {
		return err
	}
	if err := srv.InstallLegacyAPIGroup(server.DefaultLegacyAPIPrefix, &group); err != nil {
		return err
	}

	srv.AddPostStartHookOrDie("storage-readiness", srv.StorageReadinessHook.Hook) // /readyz waits for the watch caches, as kube-apiserver's does

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return srv.PrepareRun().RunWithContext(ctx)
}

// scratch is a path in the folder that $B names (default: bench in the temporary directory).
func scratch(path string) string {
	dir := os.Getenv("B")
	if dir == "" {
		dir = filepath.Join(os.TempDir(), "bench")
	}
	return filepath.Join(dir, path)
}
