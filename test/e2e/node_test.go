package e2e

import (
	"strings"
	"testing"
)

// TestNode runs everything that leaves the cluster well in one cluster: a subtest for each story, in a namespace of its own. Those about pods
// run at once, the longest first.
func TestNode(t *testing.T) {
	c := start(t)
	type story struct {
		name string
		tell func(t *testing.T, c *cluster)
	}
	groups := []struct {
		name    string
		stories []story
	}{
		{"pods", []story{
			{"too much disk", overDisk}, {"top", top}, {"bad commands", badCommands}, {"crashes", crashes}, {"probes", probes},
			{"bad config", badConfig}, {"bad images", badImages}, {"bad requests", badRequests}, {"bad volumes", badVolumes}, {"too much memory", outOfMemory}, {"does not fit", doesNotFit},
			{"about the node", aboutNode}, {"claims", claims}, {"confined", confined}, {"debug", debug}, {"files", files}, {"forced", forced}, {"init", initContainers}, {"killed", killed}, {"logs", logs}, {"ports", ports},
			{"resize", resize}, {"sandbox dies", sandboxDies}, {"sessions", sessions}, {"termination", termination},
		}},
		{"maintenance", []story{{"drain", drain}}},
	}
	for _, group := range groups {
		t.Run(group.name, func(t *testing.T) {
			for _, s := range group.stories {
				t.Run(s.name, func(t *testing.T) {
					t.Parallel()
					s.tell(t, c.within(t, strings.ReplaceAll(s.name, " ", "-")))
				})
			}
		})
	}
}
