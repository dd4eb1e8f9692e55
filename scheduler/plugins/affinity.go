package plugins

import "vigil/scheduler/nodecache"

func nodeAffinity(pod *nodecache.Pod, node *nodecache.Node) []string {
	if ok, err := pod.Affinity.Match(node.Node); err != nil {
		return []string{err.Error()}
	} else if !ok {
		return []string{"node(s) didn't match Pod's node affinity/selector"}
	}
	return nil
}

func preferredAffinity(pod *nodecache.Pod, node *nodecache.Node) int64 {
	if pod.Preferred == nil {
		return 0
	}
	return pod.Preferred.Score(node.Node)
}
