//go:build !race

package tree

const mostLevels = 5
