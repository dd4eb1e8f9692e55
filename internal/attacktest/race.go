//go:build race

package attacktest

// With the race detector code runs ten to twenty times as long and small objects are larger.
const slower, larger = 20, 2
