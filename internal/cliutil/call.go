package cliutil

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// mostFaults limits how many faults of one call are mended.
const mostFaults = 20

// Calls returns Screen.Call for a program that was called with some arguments: the call
// that a remedy makes of them. What else the tree of commands does not take of it is mended
// as well, so that the printed call runs. tree makes a new tree for a call.
func Calls(program string, args []string, tree func(args []string) *cobra.Command) func(ui.Remedy) string {
	return func(r ui.Remedy) string {
		call := changed(tree(args), args, r)
		for range mostFaults {
			var e *ui.Error
			if !errors.As(Parse(tree(call), call), &e) || e.Remedy == nil {
				break
			}
			call = changed(tree(call), call, *e.Remedy)
		}
		line := text.CommandLine(append(strings.Fields(program), call...))
		if r.Root {
			line = "sudo " + line
		}
		if r.Before != "" {
			line = r.Before + " && " + line
		}
		return line
	}
}

// Parse does what precedes the run function of a command: it returns the error of an option
// or argument that the command rejects.
func Parse(root *cobra.Command, args []string) error {
	c, rest, err := root.Find(args)
	if err != nil {
		return err
	}
	c.InitDefaultHelpFlag()
	c.InitDefaultVersionFlag()
	if err := c.ParseFlags(rest); err != nil {
		return c.FlagErrorFunc()(c, err)
	}
	if help, _ := c.Flags().GetBool("help"); help {
		return nil
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		return err
	}
	_, err = Format(c)
	return err
}

// piece is an option of a call with its value, or an argument.
type piece struct {
	words []string
	flag  string // "" if the command has no such option
	value string
}

// changed returns a call with a remedy applied.
func changed(root *cobra.Command, args []string, r ui.Remedy) []string {
	own, rest := args, []string(nil)
	if end := slices.Index(args, "--"); end >= 0 {
		own, rest = args[:end], args[end:]
	}
	c, _, err := root.Find(own)
	if err != nil {
		c = root
	}
	replaced := slices.Clone(r.Drop)
	for _, option := range r.Instead {
		name, _, _ := strings.Cut(option, "=")
		replaced = append(replaced, name)
	}
	var out []string
	instead := r.Instead
	list := pieces(c, own)
	at := slices.IndexFunc(list, func(p piece) bool { return p.value == r.Of && p.flag != "" && slices.Contains(replaced, "--"+p.flag) })
	surplus := r.Word != "" && len(r.Become) == 0 && !strings.HasPrefix(r.Word, "-")
	for i := 0; i < len(list); i++ {
		p := list[i]
		switch {
		case r.Of != "" && at >= 0 && i == at: // one value of an option that may have others
			out, instead = append(out, instead...), nil
			continue
		case (r.Of == "" || at < 0) && p.flag != "" && slices.Contains(replaced, "--"+p.flag):
			continue
		case p.flag == "" && r.Word != "" && !surplus && p.words[0] == r.Word:
			out = append(out, r.Become...)
			if last := len(list) - 1; len(r.Become) == 0 && i+1 == last && list[last].flag == "" && arguments(c, list) > 1 {
				i++ // the value that it was given
			}
			r.Word = ""
			continue
		case p.flag == "" && r.Word != "" && !surplus && strings.HasPrefix(p.words[0], r.Word+"="):
			for _, name := range r.Become {
				out = append(out, name+strings.TrimPrefix(p.words[0], r.Word))
			}
			r.Word = ""
			continue
		}
		out = append(out, p.words...)
	}
	out = slices.Concat(out, instead, r.Options)
	if surplus {
		if last := lastWord(c, out, r.Word); last >= 0 {
			out = slices.Delete(out, last, last+1)
		} else if last := slices.Index(rest, r.Word); last > 0 {
			rest = slices.Delete(slices.Clone(rest), last, last+1)
		}
	}
	return slices.Concat(out, rest)
}

// arguments returns the number of arguments of a call, without its verb.
func arguments(c *cobra.Command, list []piece) int {
	n := -len(strings.Fields(c.CommandPath())) + len(strings.Fields(c.Root().DisplayName()))
	for _, p := range list {
		if p.flag == "" && !strings.HasPrefix(p.words[0], "-") {
			n++
		}
	}
	return n
}

// lastWord returns the index of the last argument of a call that equals word, or -1. Options
// and their values are not arguments.
func lastWord(c *cobra.Command, args []string, word string) int {
	last, at := -1, 0
	for _, p := range pieces(c, args) {
		if p.flag == "" && p.words[0] == word {
			last = at
		}
		at += len(p.words)
	}
	return last
}

// pieces splits a call into options and arguments as pflag does.
func pieces(c *cobra.Command, args []string) (out []piece) {
	c.InitDefaultHelpFlag()
	c.InheritedFlags() // merges them
	for i := 0; i < len(args); i++ {
		p := piece{words: args[i : i+1]}
		var f *pflag.Flag
		var has bool
		switch word := args[i]; {
		case strings.HasPrefix(word, "--"):
			var name string
			name, p.value, has = strings.Cut(word[2:], "=")
			f = c.Flag(name)
		case len(word) > 1 && word[0] == '-':
			f = short(c, word[1:2])
			p.value = strings.TrimPrefix(word[2:], "=")
			has = len(word) > 2
		}
		if f != nil {
			p.flag = f.Name
			if !has && f.NoOptDefVal == "" && i+1 < len(args) {
				p.words, p.value = args[i:i+2], args[i+1]
				i++
			}
		}
		out = append(out, p)
	}
	return out
}

// short returns the option with a one-letter name, or nil.
func short(c *cobra.Command, name string) *pflag.Flag {
	if f := c.Flags().ShorthandLookup(name); f != nil {
		return f
	}
	return c.InheritedFlags().ShorthandLookup(name)
}
