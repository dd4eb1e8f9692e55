package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"vigil/cluster"
	"vigil/cluster/schedulerfile"
)

// schedulerFileFlags name the file that a scheduler is configured by.
type schedulerFileFlags struct{ file, writeTo string }

func (f *schedulerFileFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "config", "", "file of kind KubeSchedulerConfiguration; of the flags that say the same only --leader-elect-* and --master count beside it")
	flags.StringVar(&f.writeTo, "write-config-to", "", "write the configuration in use to this file, and end")
}

// apply sets the flags that say what the file says: those of leader election only where the command line does not, the others, which are
// deprecated upstream, always. It returns the whole configuration.
func (f *schedulerFileFlags) apply(flags *pflag.FlagSet) (*schedulerfile.File, error) {
	if f.file == "" {
		return schedulerfile.Default(), nil
	}
	read, err := schedulerfile.Read(f.file)
	if err != nil {
		return nil, err
	}
	c, e := &read.Config, &read.Config.LeaderElection
	for _, set := range []struct {
		name, value string
		given       bool // what the command line says counts
		usual       bool // the file says nothing
	}{
		{name: "kubeconfig", value: c.ClientConnection.Kubeconfig},
		{name: "kube-api-qps", value: fmt.Sprint(c.ClientConnection.QPS), usual: !read.Limited},
		{name: "kube-api-burst", value: fmt.Sprint(c.ClientConnection.Burst), usual: !read.Limited},
		{name: "profiling", value: strconv.FormatBool(*c.EnableProfiling), usual: !read.Profiled},
		{name: "contention-profiling", value: strconv.FormatBool(read.Contended && *c.EnableContentionProfiling), usual: !read.Contended},
		{name: "leader-elect", value: strconv.FormatBool(*e.LeaderElect), given: true},
		{name: "leader-elect-lease-duration", value: e.LeaseDuration.Duration.String(), given: true},
		{name: "leader-elect-renew-deadline", value: e.RenewDeadline.Duration.String(), given: true},
		{name: "leader-elect-retry-period", value: e.RetryPeriod.Duration.String(), given: true},
		{name: "leader-elect-resource-name", value: e.ResourceName, given: true},
		{name: "leader-elect-resource-namespace", value: e.ResourceNamespace, given: true},
	} {
		flag := flags.Lookup(set.name)
		if set.given && flag.Changed {
			continue
		}
		if set.usual {
			set.value = flag.DefValue
		}
		if err := flag.Value.Set(set.value); err != nil {
			return nil, fmt.Errorf("%s: --%s: %w", f.file, set.name, err)
		}
	}
	return read, nil
}

// finish checks the configuration with what flags have changed of it, and hands it to the scheduler.
func (f *schedulerFileFlags) finish(read *schedulerfile.File, profiling bool, config *cluster.SchedulerConfig) (err error) {
	c, e := &read.Config, &read.Config.LeaderElection
	c.ClientConnection.Kubeconfig = config.Kubeconfig
	if config.QPS > 0 {
		c.ClientConnection.QPS, c.ClientConnection.Burst = config.QPS, int32(config.Burst)
	}
	*c.EnableProfiling, c.EnableContentionProfiling = profiling, &config.Contention
	given := &config.Election
	e.LeaderElect, e.ResourceName, e.ResourceNamespace = &given.LeaderElect, given.Name, given.Namespace
	e.LeaseDuration, e.RenewDeadline, e.RetryPeriod = metav1.Duration{Duration: given.LeaseDuration}, metav1.Duration{Duration: given.RenewDeadline}, metav1.Duration{Duration: given.RetryPeriod}
	if err := read.Validate(); err != nil {
		return err
	}
	if config.Profiles, err = read.Profiles(); err != nil {
		return err
	}
	config.Backoff, config.Parallelism, config.Shown = read.Backoff(), int(*c.Parallelism), c
	return nil
}

// write writes the configuration in use.
func (f *schedulerFileFlags) write(read *schedulerfile.File) error {
	text, err := read.Encode()
	if err != nil {
		return err
	}
	return os.WriteFile(f.writeTo, text, 0o644)
}

// errNoKubeconfigInFile is the answer to a file that does not name the API server.
var errNoKubeconfigInFile = errors.New("clientConnection.kubeconfig is needed in the file of --config: it names the API server and holds the client certificate; --kubeconfig does not count beside a file")
