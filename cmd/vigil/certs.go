package main

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"vigil/cluster"
	"vigil/pki"
)

func newCerts() *cobra.Command {
	command := &cobra.Command{Use: "certs", Short: "Look at the certificates of a cluster, and renew them"}
	var dir string
	command.PersistentFlags().StringVar(&dir, "data-dir", cluster.DefaultDataDir(), "data directory of the cluster")
	var within time.Duration
	check := &cobra.Command{
		Use:   "check",
		Short: "Show all certificates and when they end; fail when one has ended or is about to",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return checkCerts(dir, within) },
	}
	check.Flags().DurationVar(&within, "within", 0, "fail also when a certificate ends within this time")
	renew := &cobra.Command{
		Use:   "renew [NAME...]",
		Short: "Make certificates anew, all of them or those named as `check` shows them; what runs takes them over",
		RunE: func(_ *cobra.Command, names []string) error {
			renewed, err := pki.Renew(dir, names...)
			for _, name := range renewed {
				fmt.Println("renewed " + name)
			}
			return err
		},
	}
	command.AddCommand(check, renew)
	return command
}

func checkCerts(dir string, within time.Duration) error {
	all, err := pki.Inspect(dir)
	if err != nil {
		return err
	}
	now, bad := time.Now(), 0
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(out, "CERTIFICATE\tSUBJECT\tEXPIRES\tRESIDUAL TIME\tAUTHORITY")
	for _, found := range all {
		if found.Ended(now.Add(within)) {
			bad++
		}
		if found.Err != nil {
			fmt.Fprintf(out, "%s\t!%v\t\t\t\n", found.Name, found.Err)
			continue
		}
		authority := found.Authority
		switch authority {
		case found.Name:
			authority = "(itself)"
		case "":
			authority = "(unknown)"
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", found.Name, found.Cert.Subject.CommonName, found.Cert.NotAfter.UTC().Format("Jan 02, 2006 15:04 MST"), residual(found.Cert.NotAfter.Sub(now)), authority)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if bad > 0 {
		return fmt.Errorf("%d certificates cannot be read, have ended or are about to", bad)
	}
	return nil
}

// residual is a duration as people say it, in one unit.
func residual(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "ended"
	case d >= 2*365*day:
		return fmt.Sprintf("%dy", d/(365*day))
	case d >= 2*day:
		return fmt.Sprintf("%dd", d/day)
	}
	return d.Round(time.Second).String()
}
