// Package test drives the built binary from outside: real processes, the real kubectl, client-go, controller-runtime and Helm
// unchanged, kill -9. It imports nothing of Vigil. The binary under test is $VIGIL, else ../bin/vigil (`make build`).
package test
