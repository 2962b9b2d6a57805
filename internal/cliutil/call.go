package cliutil

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// mostFaults is the maximum number of faults fixed in one call.
const mostFaults = 20

// Calls returns a Screen.Call for a program called with args. It applies a remedy to the call
// and fixes everything else that the commands reject, so that the printed call works. tree
// builds the command tree for a call.
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

// Parse does everything that precedes the run function of a command. It returns an error if
// the command rejects an option or argument.
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
	args = c.Flags().Args()
	if err := c.ValidateArgs(args); err != nil {
		return err
	}
	if _, err = Format(c); err != nil || c.PreRunE == nil {
		return err
	}
	return c.PreRunE(c, args)
}

// piece is an option with its value, or an argument, of a call.
type piece struct {
	words []string
	flag  string // "" if the command has no such option
	value string
}

func each(words []string) (out []piece) {
	for _, w := range words {
		out = append(out, piece{words: []string{w}})
	}
	return out
}

func wordsOf(list []piece) (out []string) {
	for _, p := range list {
		out = append(out, p.words...)
	}
	return out
}

// changed returns a call with a remedy applied.
func changed(root *cobra.Command, args []string, r ui.Remedy) []string {
	var rest []string
	if end := slices.Index(args, "--"); end >= 0 {
		args, rest = args[:end], slices.Clone(args[end:])
	}
	if r.NoCommand {
		rest = nil
	}
	c, _, err := root.Find(args)
	if err != nil {
		c = root
	}
	list := otherValues(pieces(c, args), r)
	switch {
	case r.Word == "":
	case len(r.Become) > 0 || strings.HasPrefix(r.Word, "-"):
		list = otherWord(c, list, r)
	default: // a surplus argument: the last one with this text
		isWord := func(p piece) bool { return p.flag == "" && p.words[0] == r.Word }
		if at := lastIndex(list, isWord); at >= 0 {
			list = slices.Delete(list, at, at+1)
		} else if at := lastIndex(rest, func(word string) bool { return word == r.Word }); at > 0 {
			rest = slices.Delete(rest, at, at+1)
		}
	}
	return slices.Concat(wordsOf(list), rest)
}

// otherValues replaces, removes and adds options as a remedy specifies.
func otherValues(list []piece, r ui.Remedy) []piece {
	named := slices.Clone(r.Drop)
	for _, option := range r.Instead {
		name, _, _ := strings.Cut(option, "=")
		named = append(named, name)
	}
	meant := func(p piece) bool { return p.flag != "" && slices.Contains(named, "--"+p.flag) }
	// If an option may be repeated, replace one of its values in place.
	if at := slices.IndexFunc(list, func(p piece) bool { return meant(p) && p.value == r.Of }); r.Of != "" && at >= 0 {
		list, r.Instead = slices.Replace(list, at, at+1, each(r.Instead)...), nil
	} else {
		list = slices.DeleteFunc(list, meant)
	}
	return append(list, each(slices.Concat(r.Instead, r.Options))...)
}

// otherWord replaces the first argument or unknown option that equals r.Word.
func otherWord(c *cobra.Command, list []piece, r ui.Remedy) []piece {
	for i, p := range list {
		name, value, has := strings.Cut(p.words[0], "=")
		switch {
		case p.flag != "":
		case p.words[0] == r.Word:
			n := 1
			if len(r.Become) == 0 && i+1 < len(list) && list[i+1].flag == "" && isValue(c, list, i+1) {
				n = 2
			}
			return slices.Replace(list, i, i+n, each(r.Become)...)
		case has && name == r.Word:
			become := slices.Clone(r.Become)
			for k := range become {
				become[k] += "=" + value
			}
			return slices.Replace(list, i, i+1, each(become)...)
		}
	}
	return list
}

// isValue reports whether the word at list[i] is probably the value of an unknown option before it.
// A number is a value unless the command takes numbers as arguments. Another word is a value if the
// command neither requires a word nor takes files, or if it is the last of several words.
func isValue(c *cobra.Command, list []piece, i int) bool {
	if _, err := strconv.Atoi(list[i].words[0]); err == nil {
		return !slices.ContainsFunc([]string{"TRANSACTION", "LINE", "CPUS"}, func(n string) bool { return strings.Contains(c.Use, n) })
	}
	needed := slices.ContainsFunc(words(c.Use), func(w string) bool {
		return !strings.HasPrefix(w, "[") || strings.Contains(w, "FILE") || strings.Contains(w, "LOG")
	})
	return !needed || i == len(list)-1 && arguments(c, list) > 1
}

// arguments returns the number of arguments of a call, without the verbs.
func arguments(c *cobra.Command, list []piece) int {
	n := -len(strings.Fields(c.CommandPath())) + len(strings.Fields(c.Root().DisplayName()))
	for _, p := range list {
		if p.flag == "" && !strings.HasPrefix(p.words[0], "-") {
			n++
		}
	}
	return n
}

func lastIndex[T any](list []T, is func(T) bool) int {
	for i, x := range slices.Backward(list) {
		if is(x) {
			return i
		}
	}
	return -1
}

// pieces splits a call into options and arguments like pflag.
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
