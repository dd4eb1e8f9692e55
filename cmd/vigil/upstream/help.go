package upstream

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/term"
)

// miscellaneous is the section of flags that no table names.
const miscellaneous = "misc"

// Help groups the help of a command by a table. Flags of no section come last.
func Help(command *cobra.Command, table []Section) {
	command.SetUsageFunc(func(command *cobra.Command) error { return printHelp(command.OutOrStderr(), command, table) })
	command.SetHelpFunc(func(command *cobra.Command, _ []string) {
		out := command.OutOrStdout()
		about := command.Long
		if about == "" {
			about = command.Short
		}
		fmt.Fprintf(out, "%s\n\n", about)
		_ = printHelp(out, command, table) // nobody reads any more
	})
}

func printHelp(out io.Writer, command *cobra.Command, table []Section) error {
	if _, err := fmt.Fprintf(out, "Usage:\n  %s\n", command.UseLine()); err != nil {
		return err
	}
	width := 0
	if file, ok := out.(*os.File); ok {
		if columns, _, err := term.TerminalSize(file); err == nil {
			width = columns
		}
	}
	cliflag.PrintSections(out, sections(command.Flags(), table), width)
	return nil
}

// sections puts flags into sets in the order of a table. Within a set, they are in that order, too.
func sections(flags *pflag.FlagSet, table []Section) cliflag.NamedFlagSets {
	var sets cliflag.NamedFlagSets
	placed := map[string]bool{}
	place := func(section string, flag *pflag.Flag) {
		if flag == nil || placed[flag.Name] {
			return
		}
		placed[flag.Name] = true
		set := sets.FlagSet(section)
		set.SortFlags = false
		set.AddFlag(flag)
	}
	for _, s := range table {
		for _, f := range s.Flags {
			place(s.Name, flags.Lookup(f.Name))
		}
	}
	flags.VisitAll(func(flag *pflag.Flag) { place(miscellaneous, flag) })
	return sets
}
