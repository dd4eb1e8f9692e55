package main

import (
	"fmt"

	"github.com/spf13/pflag"

	"vigil/kubelet/configfile"
)

// kubeletFileFlags name the files that a kubelet is configured by.
type kubeletFileFlags struct{ file, dropIns string }

func (f *kubeletFileFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.file, "config", "", "file of kind KubeletConfiguration; flags win over it")
	flags.StringVar(&f.dropIns, "config-dir", "", "directory of *.conf files that change what --config says, one after another")
}

// apply sets the flags that the files say something about and the command line does not. ignored are the fields that have no effect.
func (f *kubeletFileFlags) apply(flags *pflag.FlagSet) (ignored []string, err error) {
	if f.file == "" && f.dropIns == "" {
		return nil, nil
	}
	read, err := configfile.Read(f.file, f.dropIns)
	if err != nil {
		return nil, err
	}
	for _, flag := range read.Flags() {
		if flags.Changed(flag.Name) {
			continue
		}
		if err := flags.Set(flag.Name, flag.Value); err != nil {
			return nil, fmt.Errorf("invalid configuration: %s (--%s) %q: %w", flag.Field, flag.Name, flag.Value, err)
		}
	}
	return read.Ignored(), nil
}
