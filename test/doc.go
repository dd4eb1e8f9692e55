// Package test drives the built binary from outside: real processes, the real kubectl, client-go, controller-runtime and Helm unchanged, kill -9. Its
// nodes are simulated; those with real containers are in test/e2e. Of Vigil's packages it uses helpers of tests alone.
package test
