//go:build !race

package attacktest

const slower, larger = 1, 1
