// Package cluster assembles the components into processes: a whole cluster in one (Up), or one component alone
// (RunAPIServer, RunControllerManager, RunScheduler, RunKubelet). Together or apart they are the same code and talk
// over the same mutual TLS: nothing here hands one component a pointer into another.
//
// Start-up order and its reasons stand in Up; shutdown is its reverse.
package cluster
