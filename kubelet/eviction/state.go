package eviction

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// state is what is remembered between rounds.
type state struct {
	transition time.Duration // how long a condition stays after its thresholds were met last

	first map[string]time.Time                   // since when a threshold has been met, by key
	seen  map[corev1.NodeConditionType]time.Time // when a condition was last met
	met   []Threshold                            // past their grace, and not yet resolved
	last  map[Signal]observation
}

func newState(transition time.Duration) *state {
	return &state{transition: transition, first: map[string]time.Time{}, seen: map[corev1.NodeConditionType]time.Time{}}
}

// step takes in what was observed. It returns the conditions that hold, in alphabetical order, and the thresholds for which something
// has to be done, most urgent first: they are past their grace, and there are new figures since the last step.
func (s *state) step(thresholds []Threshold, now time.Time, observed map[Signal]observation) (conditions []corev1.NodeConditionType, act []Threshold) {
	met := thresholdsMet(thresholds, observed, false)
	for _, t := range thresholdsMet(s.met, observed, true) { // what was met ends with enough reclaimed only
		if !slices.ContainsFunc(met, func(have Threshold) bool { return have.key() == t.key() }) {
			met = append(met, t)
		}
	}
	first := map[string]time.Time{}
	s.met = nil
	for _, t := range met {
		since, ok := s.first[t.key()]
		if !ok {
			since = now
		}
		first[t.key()] = since
		s.seen[signals[t.Signal].condition] = now
		if now.Sub(since) >= t.Grace {
			s.met = append(s.met, t)
			last, known := s.last[t.Signal]
			if at := observed[t.Signal].time; !known || at.IsZero() || at.After(last.time) {
				act = append(act, t)
			}
		}
	}
	s.first, s.last = first, observed
	for condition, at := range s.seen {
		if now.Sub(at) < s.transition || at.Equal(now) {
			conditions = append(conditions, condition)
		}
	}
	slices.Sort(conditions)
	slices.SortStableFunc(act, func(a, b Threshold) int { return boolsFirst(a.Signal.isMemory(), b.Signal.isMemory()) })
	return conditions, act
}

// thresholdsMet are those of which too little is left; resolved thresholds have at least MinReclaim more.
func thresholdsMet(thresholds []Threshold, observed map[Signal]observation, withReclaim bool) (met []Threshold) {
	for _, t := range thresholds {
		o, ok := observed[t.Signal]
		if !ok {
			continue
		}
		wanted := t.Value.of(o.capacity)
		if withReclaim && t.MinReclaim != nil {
			wanted.Add(t.MinReclaim.of(o.capacity))
		}
		if wanted.Cmp(*o.available) > 0 {
			met = append(met, t)
		}
	}
	return met
}

// boolsFirst orders true before false.
func boolsFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
