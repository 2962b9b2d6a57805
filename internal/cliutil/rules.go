package cliutil

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/ui"
)

// Check adds a check of flags and arguments before the run function of a command. Printed
// calls must pass it too, so it must depend only on the call.
func Check(c *cobra.Command, check func(args []string) error) {
	before := c.PreRunE
	c.PreRunE = func(c *cobra.Command, args []string) error {
		if before != nil {
			if err := before(c, args); err != nil {
				return err
			}
		}
		return check(args)
	}
}

// given reports whether a call sets a flag. --flag=false counts as not set.
func given(c *cobra.Command, name string) bool {
	f := c.Flag(name)
	return f != nil && f.Changed && f.Value.String() != "false"
}

// which returns the names of those flags that a call sets, with dashes.
func which(c *cobra.Command, names []string) (out []string) {
	for _, name := range names {
		if given(c, name) {
			out = append(out, "--"+name)
		}
	}
	return out
}

// Exclusive permits at most one of the flags. The suggested call keeps the first one.
func Exclusive(c *cobra.Command, names ...string) {
	c.MarkFlagsMutuallyExclusive(names...) // completions then omit the other flags
	Check(c, func([]string) error {
		has := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return !c.Flag(name).Changed })
		if has = dashed(has); len(has) > 1 {
			return ui.Without(fmt.Errorf("use only one of %s", list(dashed(names), "and")), has[1:]...)
		}
		return nil
	})
}

// Excludes rejects others if flag is set, for the reason why. The suggested call omits them.
func Excludes(c *cobra.Command, flag, why string, others ...string) {
	Check(c, func([]string) error {
		if has := which(c, others); given(c, flag) && len(has) > 0 {
			return ui.Without(fmt.Errorf("%s cannot be used with --%s: %s", strings.Join(has, " and "), flag, why), has...)
		}
		return nil
	})
}

// Requires rejects the flags names without another flag. with is that flag as the suggested
// call adds it: --write-prefix=bench/. If with lacks a required value, the suggested call
// omits names instead.
func Requires(c *cobra.Command, with string, names ...string) {
	name, _, hasValue := strings.Cut(strings.TrimPrefix(with, "--"), "=")
	Check(c, func([]string) error {
		has := which(c, names)
		if len(has) == 0 || given(c, name) {
			return nil
		}
		err := fmt.Errorf("%s %s --%s", strings.Join(has, " and "), verb(has, "needs", "need"), name)
		if !hasValue && c.Flag(name).NoOptDefVal == "" {
			return ui.Without(err, has...)
		}
		return ui.Retry(ui.Usage, err, "", with)
	})
}

// NotEmpty rejects flags with an empty value, for example from an unset variable of a script.
func NotEmpty(c *cobra.Command) {
	Check(c, func([]string) (err error) {
		c.Flags().Visit(func(f *pflag.Flag) {
			empty := f.Value.Type() == "string" && strings.TrimSpace(f.Value.String()) == ""
			if list, ok := f.Value.(pflag.SliceValue); ok {
				all := list.GetSlice()
				empty = len(all) == 0 || slices.ContainsFunc(all, func(s string) bool { return strings.TrimSpace(s) == "" })
			}
			if empty && err == nil {
				err = ui.Without(fmt.Errorf("--%s is empty; leave it out, or set the shell variable in its value", f.Name), "--"+f.Name)
			}
		})
		return err
	})
}

func verb(subjects []string, one, several string) string {
	if len(subjects) == 1 {
		return one
	}
	return several
}

func dashed(names []string) (out []string) {
	for _, name := range names {
		out = append(out, "--"+name)
	}
	return out
}
