package kubelet

// LookAtAll makes all workers look again, as when a resync is due.
func (k *Kubelet) LookAtAll() { k.lookAtAll() }
