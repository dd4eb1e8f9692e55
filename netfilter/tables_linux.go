package netfilter

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/google/nftables"
)

func open() (*nftables.Conn, error) {
	c, err := nftables.New()
	if err != nil {
		return nil, fmt.Errorf("open nftables: %w", err)
	}
	return c, nil
}

// IsComplete reports whether a table has chains and each of them has rules. Others flush whole rule sets, but do not pick at single rules of ours.
func IsComplete(name string) (bool, error) {
	c, err := open()
	if err != nil {
		return false, err
	}
	chains, err := c.ListChainsOfTableFamily(nftables.TableFamilyINet)
	if err != nil {
		return false, fmt.Errorf("list nftables chains: %w", err)
	}
	found := 0
	for _, chain := range chains {
		if chain.Table.Name != name {
			continue
		}
		rules, err := c.GetRules(chain.Table, chain)
		if err != nil {
			return false, fmt.Errorf("list nftables rules: %w", err)
		}
		if len(rules) == 0 {
			return false, nil
		}
		found++
	}
	return found > 0, nil
}

// Tables lists the tables whose names have a prefix.
func Tables(prefix string) ([]string, error) {
	c, err := open()
	if err != nil {
		return nil, err
	}
	tables, err := c.ListTablesOfFamily(nftables.TableFamilyINet)
	if err != nil {
		return nil, fmt.Errorf("list nftables tables: %w", err)
	}
	var names []string
	for _, table := range tables {
		if strings.HasPrefix(table.Name, prefix) {
			names = append(names, table.Name)
		}
	}
	return names, nil
}

// RemoveTable removes a table. That there is none is no error.
func RemoveTable(name string) error {
	c, err := open()
	if err != nil {
		return err
	}
	c.DelTable(&nftables.Table{Family: nftables.TableFamilyINet, Name: name})
	if err := c.Flush(); err != nil && !errors.Is(err, syscall.ENOENT) {
		return fmt.Errorf("remove nftables table %s: %w", name, err)
	}
	return nil
}
