package podspec

import (
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// tolerance names the rules that came after objects which break them. The stored object of an update shows which:
// what it may not have today it may keep.
type tolerance struct {
	selectorValues  bool // bad label values in pod affinity selectors
	spreadSelectors bool // bad selectors in topology spread constraints
	affinityValues  bool // bad label values in required node affinity
	hugePages       bool // huge pages that are no multiple of their page size
	tokenPaths      bool // service account tokens outside of their volume
	hostSysctls     bool // sysctls of a namespace that is shared with the host
	deletionCost    bool // a deletion cost that is no number
}

func toleranceOf(opts Options) tolerance {
	if opts.Old == nil {
		return tolerance{}
	}
	breaks := func(check func(*checker)) bool {
		c := &checker{spec: opts.Old, opts: Options{Pod: opts.Pod}}
		check(c)
		return len(c.errs) > 0
	}
	var root *field.Path
	return tolerance{
		selectorValues:  breaks(func(c *checker) { c.checkPodAffinitySelectors() }),
		spreadSelectors: breaks(func(c *checker) { c.checkSpreadSelectors(root) }),
		affinityValues:  breaks(func(c *checker) { c.checkRequiredNodeAffinityValues() }),
		hugePages:       breaks(func(c *checker) { c.checkHugePages() }),
		tokenPaths:      breaks(func(c *checker) { c.checkTokenPaths() }),
		hostSysctls:     breaks(func(c *checker) { c.checkHostSysctls(root) }),
		deletionCost:    !validDeletionCost(opts.OldAnnotations),
	}
}
