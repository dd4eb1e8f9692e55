package podspec

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func (c *checker) checkLifecycle(l *corev1.Lifecycle, path *field.Path) {
	if l == nil {
		return
	}
	for _, event := range []struct {
		name    string
		handler *corev1.LifecycleHandler
	}{{"postStart", l.PostStart}, {"preStop", l.PreStop}} {
		if h := event.handler; h != nil {
			c.checkHandler(handler{exec: h.Exec, httpGet: h.HTTPGet, tcpSocket: h.TCPSocket, sleep: h.Sleep}, path.Child(event.name))
		}
	}
	if l.StopSignal != nil {
		c.checkStopSignal(*l.StopSignal, path.Child("stopSignal"))
	}
}

// checkSleep wants the sleep to end before the container is killed.
func (c *checker) checkSleep(sleep *corev1.SleepAction, path *field.Path) {
	grace := c.spec.TerminationGracePeriodSeconds
	if grace != nil && (sleep.Seconds < 0 || sleep.Seconds > *grace) {
		c.add(field.Invalid(path, sleep.Seconds, fmt.Sprintf("must be non-negative and less than terminationGracePeriodSeconds (%d)", *grace)))
	}
}

var windowsSignals = []corev1.Signal{corev1.SIGKILL, corev1.SIGTERM}

// checkStopSignal checks a stop signal, which means something only where the operating system is known (KEP-4960).
func (c *checker) checkStopSignal(signal corev1.Signal, path *field.Path) {
	switch {
	case c.spec.OS == nil || c.spec.OS.Name == "":
		c.add(field.Forbidden(path, "may not be set for containers with empty `spec.os.name`"))
	case c.spec.OS.Name == corev1.Windows:
		c.add(notSupportedIn(path, signal, windowsSignals...)...)
	default:
		c.add(notSupportedIn(path, signal, linuxSignals()...)...)
	}
}

// linuxSignals lists the signals that a Linux container can be stopped with, sorted as error texts show them.
func linuxSignals() []corev1.Signal {
	signals := []corev1.Signal{
		corev1.SIGABRT, corev1.SIGALRM, corev1.SIGBUS, corev1.SIGCHLD, corev1.SIGCLD, corev1.SIGCONT, corev1.SIGFPE,
		corev1.SIGHUP, corev1.SIGILL, corev1.SIGINT, corev1.SIGIO, corev1.SIGIOT, corev1.SIGKILL, corev1.SIGPIPE,
		corev1.SIGPOLL, corev1.SIGPROF, corev1.SIGPWR, corev1.SIGQUIT, corev1.SIGSEGV, corev1.SIGSTKFLT, corev1.SIGSTOP,
		corev1.SIGSYS, corev1.SIGTERM, corev1.SIGTRAP, corev1.SIGTSTP, corev1.SIGTTIN, corev1.SIGTTOU, corev1.SIGURG,
		corev1.SIGUSR1, corev1.SIGUSR2, corev1.SIGVTALRM, corev1.SIGWINCH, corev1.SIGXCPU, corev1.SIGXFSZ,
		corev1.SIGRTMIN, corev1.SIGRTMAX,
	}
	for i := 1; i <= 15; i++ {
		signals = append(signals, corev1.Signal(fmt.Sprintf("%s+%d", corev1.SIGRTMIN, i)))
	}
	for i := 1; i <= 14; i++ {
		signals = append(signals, corev1.Signal(fmt.Sprintf("%s-%d", corev1.SIGRTMAX, i)))
	}
	slices.Sort(signals)
	return signals
}
