package e2e

import (
	"testing"
)

// TestNode runs everything that leaves the cluster well in one cluster: a subtest for each story, in a namespace of its own, all of a
// group at once.
func TestNode(t *testing.T) {
	c := start(t)
	groups := []struct {
		name    string
		stories map[string]func(t *testing.T, c *cluster)
	}{
		{"life", map[string]func(t *testing.T, c *cluster){
			"crashes":     crashes,
			"probes":      probes,
			"sessions":    sessions,
			"logs":        logs,
			"files":       files,
			"killed":      killed,
			"init":        initContainers,
			"debug":       debug,
			"resize":      resize,
			"ports":       ports,
			"termination": termination,
			"top":         top,
		}},
		{"bad", map[string]func(t *testing.T, c *cluster){
			"images":   badImages,
			"commands": badCommands,
			"config":   badConfig,
			"volumes":  badVolumes,
			"memory":   outOfMemory,
			"disk":     overDisk,
			"fit":      doesNotFit,
			"requests": badRequests,
		}},
		{"maintenance", map[string]func(t *testing.T, c *cluster){
			"drain": drain,
		}},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for name, story := range group.stories {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					story(t, c.within(t, group.name+"-"+name))
				})
			}
		})
	}
}
