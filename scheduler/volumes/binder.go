package volumes

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"vigil/informer"
)

// Binder knows claims and volumes, and what was decided about them lately.
type Binder struct {
	client  kubernetes.Interface
	claims  informer.Lister[*corev1.PersistentVolumeClaim]
	classes informer.Lister[*storagev1.StorageClass]
	pvs     *informer.Informer
	changed func() // something may help a pod that was refused

	mu       sync.Mutex
	volumes  map[string]*corev1.PersistentVolume // all, decoded once
	taken    map[string]types.UID                // volumes that are assumed to be a claim's
	selected map[types.NamespacedName]*selection // claims for which a node is assumed
	news     chan struct{}                       // closed at the next change
}

// selection is the node that is assumed for a claim, by so many plans.
type selection struct {
	node  string
	plans int
}

// New makes a binder and registers its handlers with the informers, so it must be called before they run. changed is called after each change
// of a claim, a volume or a class.
func New(client kubernetes.Interface, informers *informer.Factory, changed func()) *Binder {
	claims, volumes, classes := informer.ResourceOf[*corev1.PersistentVolumeClaim](), informer.ResourceOf[*corev1.PersistentVolume](), informer.ResourceOf[*storagev1.StorageClass]()
	for _, r := range []*informer.Resource{&claims, &volumes, &classes} {
		r.DropManagedFields = true
	}
	b := &Binder{
		client:  client,
		claims:  informer.ListerFor[*corev1.PersistentVolumeClaim](informers.Informer(claims)),
		classes: informer.ListerFor[*storagev1.StorageClass](informers.Informer(classes)),
		pvs:     informers.Informer(volumes),
		changed: changed,
		volumes: map[string]*corev1.PersistentVolume{}, taken: map[string]types.UID{}, selected: map[types.NamespacedName]*selection{},
		news: make(chan struct{}),
	}
	set := func(pv *corev1.PersistentVolume) {
		b.mu.Lock()
		b.volumes[pv.Name] = pv
		b.mu.Unlock()
		b.happened()
	}
	b.pvs.AddHandler(informer.Handler[*corev1.PersistentVolume]{
		OnAdd:    func(pv *corev1.PersistentVolume, _ bool) { set(pv) },
		OnUpdate: func(_, pv *corev1.PersistentVolume) { set(pv) },
		OnDelete: func(pv *corev1.PersistentVolume, _ bool) {
			b.mu.Lock()
			delete(b.volumes, pv.Name)
			b.mu.Unlock()
			b.happened()
		},
	}.EventHandler())
	each := informer.Keys(func(types.NamespacedName) { b.happened() })
	b.claims.Informer().AddHandler(each)
	b.classes.Informer().AddHandler(each)
	return b
}

// Informers are what has to be in sync before the first Plan.
func (b *Binder) Informers() []*informer.Informer {
	return []*informer.Informer{b.claims.Informer(), b.pvs, b.classes.Informer()}
}

func (b *Binder) happened() {
	b.Wake()
	b.changed()
}

// Wake has those who wait in Plan.Bind look again.
func (b *Binder) Wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	close(b.news)
	b.news = make(chan struct{})
}

func (b *Binder) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.news
}

func (b *Binder) volume(name string) *corev1.PersistentVolume {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.volumes[name]
}
