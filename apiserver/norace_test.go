//go:build !race

package apiserver_test

// raceEnabled says that times do not count.
const raceEnabled = false
