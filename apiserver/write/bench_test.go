package write

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/client-go/kubernetes/scheme"

	"vigil/apiserver/decode"
	"vigil/kinds"
	"vigil/kinds/core"
	"vigil/object"
	"vigil/store"
)

// memory is a store and cache in memory, so that the benchmarks show what the writer costs, not etcd.
type memory struct {
	mu      sync.Mutex
	rev     int64
	objects map[string]store.KV
	cached  map[string]*object.Version
}

func (m *memory) Create(_ context.Context, key string, value []byte, _ time.Duration) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.objects[key]; ok {
		return 0, store.ErrExists
	}
	return m.put(key, value), nil
}

func (m *memory) put(key string, value []byte) int64 {
	m.rev++
	m.objects[key] = store.KV{Key: key, Value: value, ModRev: m.rev}
	return m.rev
}

func (m *memory) Get(_ context.Context, key string) (store.KV, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kv, ok := m.objects[key]
	if !ok {
		return kv, store.ErrNotFound
	}
	return kv, nil
}

func (m *memory) Update(_ context.Context, key string, value []byte, ifRev int64, _ time.Duration) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kv, ok := m.objects[key]
	if kv.ModRev != ifRev {
		return 0, &store.ConflictError{Current: kv, Found: ok}
	}
	return m.put(key, value), nil
}

func (m *memory) Delete(_ context.Context, key string, ifRev int64) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kv, ok := m.objects[key]
	if kv.ModRev != ifRev {
		return 0, &store.ConflictError{Current: kv, Found: ok}
	}
	delete(m.objects, key)
	m.rev++
	return m.rev, nil
}

// cache is a cache that is always current. Its versions are made by the writer, as the feed would make them elsewhere.
type memoryCache struct {
	m *memory
	k *kinds.Kind
}

func (memoryCache) Written(*object.Version) {}

func (c memoryCache) Get(key string) (*object.Version, bool) {
	c.m.mu.Lock()
	defer c.m.mu.Unlock()
	kv, ok := c.m.objects[key]
	if !ok {
		return nil, false
	}
	if v := c.m.cached[key]; v != nil && v.Revision() == kv.ModRev {
		return v, true
	}
	v, err := object.NewVersion(c.k.Type, key, kv.ModRev, kv.Value)
	if err != nil {
		return nil, false
	}
	c.m.cached[key] = v
	return v, true
}

// The pod of bench/: 2.5 KB as JSON.
const benchPod = `{"kind":"Pod","apiVersion":"v1","metadata":{"name":"@NAME@","namespace":"default","generateName":"web-frontend-7d4b9c6f58-",
"labels":{"app":"app-1","app.kubernetes.io/name":"web-frontend","pod-template-hash":"7d4b9c6f58","tier":"frontend","shard":"s1"},
"annotations":{"bench/ts":"1234567890123456789.0000001","prometheus.io/scrape":"true"},
"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-frontend-7d4b9c6f58","uid":"6c1f0e5e-58c6-4a4e-9a0c-0123456789ab","controller":true,"blockOwnerDeletion":true}]},
"spec":{"volumes":[{"name":"config","configMap":{"name":"web-frontend-config","defaultMode":420}}],
"containers":[{"name":"web","image":"registry.example.com/shop/web-frontend:v1.42.7","args":["--listen=:8080","--config=/etc/web/config.yaml"],
"env":[{"name":"LOG_LEVEL","value":"info"},{"name":"GOMAXPROCS","value":"2"}],
"resources":{"limits":{"memory":"1Gi"},"requests":{"cpu":"250m","memory":"256Mi"}},
"volumeMounts":[{"name":"config","mountPath":"/etc/web"}],
"livenessProbe":{"httpGet":{"path":"/healthz","port":8080,"scheme":"HTTP"},"timeoutSeconds":1,"periodSeconds":10,"successThreshold":1,"failureThreshold":3},
"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],
"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","serviceAccountName":"web-frontend","nodeName":"node-1","schedulerName":"default-scheduler",
"priority":0,"enableServiceLinks":true}@STATUS@}`

const benchStatus = `,"status":{"phase":"Running","conditions":[
{"type":"Ready","status":"True","lastProbeTime":null,"lastTransitionTime":"@TIME@"},
{"type":"ContainersReady","status":"True","lastProbeTime":null,"lastTransitionTime":"@TIME@"},
{"type":"PodScheduled","status":"True","lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z"}],
"hostIP":"10.0.1.2","podIP":"10.64.1.2","podIPs":[{"ip":"10.64.1.2"}],"startTime":"2026-01-01T00:00:00Z",
"containerStatuses":[{"name":"web","state":{"running":{"startedAt":"2026-01-01T00:00:03Z"}},"lastState":{},"ready":true,"restartCount":0,"image":"registry.example.com/shop/web-frontend:v1.42.7",
"imageID":"registry.example.com/shop/web-frontend@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","containerID":"containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef","started":true}],"qosClass":"Burstable"}`

// Kubelets send a strategic patch of this size.
const benchStatusPatch = `{"metadata":{"uid":"@UID@"},"status":{"$setElementOrder/conditions":[{"type":"Ready"},{"type":"ContainersReady"},{"type":"PodScheduled"}],
"conditions":[{"lastTransitionTime":"@TIME@","type":"Ready"}],"containerStatuses":[{"containerID":"containerd://0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
"image":"registry.example.com/shop/web-frontend:v1.42.7","imageID":"registry.example.com/shop/web-frontend@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
"lastState":{},"name":"web","ready":true,"restartCount":@N@,"started":true,"state":{"running":{"startedAt":"2026-01-01T00:00:03Z"}}}]}}`

// benchWriter is a writer over memory, with the real row of pods, and a pod to change.
func benchWriter(b *testing.B) (*Writer, *kinds.Kind) {
	b.Helper()
	m := &memory{objects: map[string]store.KV{}, cached: map[string]*object.Version{}}
	namespaces, pods := core.Namespace(), core.Pod()
	table := kinds.NewTable(namespaces, pods)
	var w *Writer
	s := &serving{table: table, cache: func(k *kinds.Kind) Cache { return memoryCache{m, k} }}
	s.chain = lifecycle(&w, s)
	w = New(Config{Store: m, Resource: s.resource})
	ctx := context.Background()
	for _, r := range []*Request{
		{Kind: namespaces, Body: []byte(`{"metadata":{"name":"default"}}`)},
		{Kind: pods, Namespace: "default", Body: benchBody("p", false, 0)},
	} {
		if _, err := w.Create(ctx, r); err != nil {
			b.Fatal(err)
		}
	}
	return w, pods
}

func benchBody(name string, status bool, n int) []byte {
	with := ""
	if status {
		with = strings.ReplaceAll(benchStatus, "@TIME@", time.Unix(int64(n), 0).UTC().Format(time.RFC3339))
	}
	return []byte(strings.NewReplacer("@NAME@", name, "@STATUS@", with).Replace(benchPod))
}

// asProtobuf is a JSON body as client-go sends it.
func asProtobuf(b *testing.B, body []byte) []byte {
	b.Helper()
	pod := &corev1.Pod{}
	if _, err := decode.Into(body, decode.JSON, decode.Strict, corev1.SchemeGroupVersion.WithKind("Pod"), pod); err != nil {
		b.Fatal(err)
	}
	data, err := runtime.Encode(protobuf.NewSerializer(scheme.Scheme, scheme.Scheme), pod)
	if err != nil {
		b.Fatal(err)
	}
	return data
}

// run measures do with bodies that are made outside of the time measured.
func benchBodies(b *testing.B, contentType string, body func(n int) []byte, do func(r *Request) (*Result, error)) {
	bodies := make([][]byte, 1000)
	for i := range bodies {
		bodies[i] = body(i)
		if contentType == protobufType {
			bodies[i] = asProtobuf(b, bodies[i])
		}
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		r := &Request{Namespace: "default", Body: bodies[i%len(bodies)], ContentType: contentType}
		result, err := do(r)
		if err != nil {
			b.Fatal(err)
		}
		if result.Version == nil {
			b.Fatal("no version")
		}
		i++
	}
	b.ReportMetric(float64(len(bodies[0])), "bytes/body")
}

const (
	jsonType     = "application/json"
	protobufType = "application/vnd.kubernetes.protobuf"
)

func BenchmarkCreate(b *testing.B) {
	for _, contentType := range []string{jsonType, protobufType} {
		b.Run(contentType[len("application/"):], func(b *testing.B) {
			w, pods := benchWriter(b)
			benchBodies(b, contentType, func(n int) []byte { return benchBody("", false, n) }, func(r *Request) (*Result, error) {
				r.Kind = pods
				return w.Create(context.Background(), r)
			})
		})
	}
}

func BenchmarkUpdateStatus(b *testing.B) {
	for _, contentType := range []string{jsonType, protobufType} {
		b.Run(contentType[len("application/"):], func(b *testing.B) {
			w, pods := benchWriter(b)
			benchBodies(b, contentType, func(n int) []byte { return benchBody("p", true, n) }, func(r *Request) (*Result, error) {
				r.Kind, r.Name, r.Subresource = pods, "p", "status"
				return w.Update(context.Background(), r)
			})
		})
	}
}

func BenchmarkPatchStatus(b *testing.B) {
	for _, c := range []struct{ name, contentType, body string }{
		{"strategic", strategicPatch, benchStatusPatch},
		{"merge", mergePatch, `{"status":{"message":"@N@"}}`},
		{"json", jsonPatch, `[{"op":"add","path":"/status/message","value":"@N@"}]`},
	} {
		b.Run(c.name, func(b *testing.B) {
			w, pods := benchWriter(b)
			status := func(r *Request) *Request {
				r.Kind, r.Name, r.Subresource = pods, "p", "status"
				return r
			}
			first, err := w.Update(context.Background(), status(&Request{Namespace: "default", Body: benchBody("p", true, 0)}))
			if err != nil {
				b.Fatal(err)
			}
			uid := first.Version.UID()
			benchBodies(b, c.contentType, func(n int) []byte {
				at := time.Unix(int64(n), 0).UTC().Format(time.RFC3339)
				return []byte(strings.NewReplacer("@N@", strconv.Itoa(n), "@TIME@", at, "@UID@", uid).Replace(c.body))
			}, func(r *Request) (*Result, error) {
				return w.Patch(context.Background(), status(r))
			})
		})
	}
}
