package upstream

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// Section is a part of a component's --help.
type Section struct {
	Name  string // as kube-apiserver --help writes it, without "flags"
	Flags []Flag
}

// Flag is a row: a flag of a component.
type Flag struct {
	Name string
	// Value is what the flag stands for here; its form says what kind of flag it is: true and false, numbers, durations, other text.
	Value string
	// Why says, after the flag's name and a colon, why it can have no other value, or why it has no effect.
	Why    string
	effect effect
}

type effect int

const (
	works   effect = iota // the component defines the flag
	fixed                 // Value is accepted, others are refused
	ignored               // every value of the kind is accepted, and nothing depends on it
)

// own are flags that the component defines itself, in the order of its help, with blanks between them.
func own(names string) []Flag {
	var flags []Flag
	for name := range strings.FieldsSeq(names) {
		flags = append(flags, Flag{Name: name, effect: works})
	}
	return flags
}

// only is a flag that may say what is the case anyway.
func only(name, value, why string) Flag { return Flag{name, value, why, fixed} }

// noEffect is a flag on which nothing depends that a user could see.
func noEffect(name, value, why string) Flag { return Flag{name, value, why, ignored} }

// section joins the flags that work and the others.
func section(name string, works []Flag, others ...Flag) Section {
	return Section{Name: name, Flags: append(works, others...)}
}

// Add defines the flags of a table that the component does not define itself.
func Add(flags *pflag.FlagSet, table []Section) {
	for _, s := range table {
		for _, f := range s.Flags {
			if f.effect != works && flags.Lookup(f.Name) == nil {
				f.add(flags)
			}
		}
	}
}

func (f Flag) add(flags *pflag.FlagSet) {
	usage := f.Why
	if f.effect == fixed {
		usage = "only " + quoteEmpty(f.Value) + ": " + f.Why
	} else {
		usage = "no effect: " + usage
	}
	flag := flags.VarPF(&value{flag: f, text: f.Value}, f.Name, "", usage)
	if f.kind() == "bool" {
		flag.NoOptDefVal = "true"
	}
}

// value is a pflag.Value that knows what it may be.
type value struct {
	flag Flag
	text string
}

func (v *value) String() string { return v.text }
func (v *value) Type() string   { return v.flag.kind() }

func (v *value) Set(text string) error {
	if err := v.flag.check(text); err != nil {
		return err
	}
	v.text = text
	return nil
}

// kind is what pflag calls the type.
func (f Flag) kind() string {
	if _, err := strconv.ParseInt(f.Value, 10, 64); err == nil {
		return "int"
	}
	if _, err := strconv.ParseFloat(f.Value, 64); err == nil {
		return "float"
	}
	if f.Value == "true" || f.Value == "false" {
		return "bool"
	}
	if _, err := time.ParseDuration(f.Value); err == nil {
		return "duration"
	}
	return "string"
}

// check says whether a value is of the flag's kind and, where only one is possible, that one.
func (f Flag) check(text string) error {
	same := text == f.Value
	switch f.kind() {
	case "int":
		given, err := strconv.ParseInt(text, 0, 64)
		if err != nil {
			return err
		}
		usual, err := strconv.ParseInt(f.Value, 10, 64)
		same = err == nil && given == usual
	case "float":
		given, err := strconv.ParseFloat(text, 64)
		if err != nil {
			return err
		}
		usual, err := strconv.ParseFloat(f.Value, 64)
		same = err == nil && given == usual
	case "bool":
		given, err := strconv.ParseBool(text)
		if err != nil {
			return err
		}
		same = strconv.FormatBool(given) == f.Value
	case "duration":
		given, err := time.ParseDuration(text)
		if err != nil {
			return err
		}
		usual, err := time.ParseDuration(f.Value)
		same = err == nil && given == usual
	}
	if f.effect == fixed && !same {
		return fmt.Errorf("%s; only %s is possible", f.Why, quoteEmpty(f.Value))
	}
	return nil
}

func quoteEmpty(text string) string {
	if text == "" {
		return `""`
	}
	return text
}
