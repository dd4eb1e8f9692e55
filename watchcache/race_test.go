//go:build race

package watchcache

const raceEnabled = true
