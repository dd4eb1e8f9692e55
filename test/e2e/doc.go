// Package e2e has the tests of whole clusters with real containers: the program as `make build` has built it, containerd and runc as
// `make runtime` has, kubectl, and containers of the demo image, all in namespaces of their own (package nstest). It has no other code.
//
// $VIGIL names another program than bin/vigil. Each test runs a cluster of its own unless it says otherwise; what happens in it is
// printed when the test fails.
package e2e
