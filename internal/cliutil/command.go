// Package cliutil has what the command lines of fettle and of kubectl fettle share: what
// is refused of their words, in sentences with the exit code for it, and what is printed
// of a failure.
package cliutil

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Root gives the root of a tree of commands what both programs want of it: cobra says
// nothing by itself, verbs and options that there are not are refused, and without any
// word there is help. The output option is put into *output.
func Root(c *cobra.Command, output *string) {
	c.Long += "\n\nExit codes:\n" + exitCodes()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.Args = KnownVerb
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		// The options of a verb that there is not are unknown, too.
		if words := c.Flags().Args(); c.HasSubCommands() && len(words) > 0 {
			err = cmp.Or(c.ValidateArgs(words), err)
		}
		return flagError(c, err)
	})
	c.PersistentFlags().StringVarP(output, "output", "o", "table", "table, json, yaml or markdown")
	_ = c.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml", "markdown"}, cobra.ShellCompDirectiveNoFileComp))
}

// flagError is the error of an option: with the same call and a value that the option
// takes, where it knows one; with the name that may have been meant for one that there
// is not.
func flagError(c *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	var works interface{ Works() string }
	if errors.As(err, &bad) && errors.As(err, &works) {
		return ui.Instead(ui.Usage, fmt.Errorf("--%s: %w", bad.GetFlag().Name, errors.Unwrap(bad)), "", "--"+bad.GetFlag().Name+"="+works.Works())
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		var names []string
		c.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		name := unknown.GetSpecifiedName()
		if near := text.Nearest(name, names); near != "" && text.EditDistance(name, near) <= max(1, len(name)/3) {
			err = fmt.Errorf("%w (did you mean --%s?)", err, near)
		}
	}
	return seeHelp(c, wanted(err))
}

// wanted says of an option what it is to be, where its value is none of these: pflag tells
// which function of Go did not take it.
func wanted(err error) error {
	var bad *pflag.InvalidValueError
	if !errors.As(err, &bad) {
		return err
	}
	what := ""
	var number *strconv.NumError
	switch flag := bad.GetFlag(); {
	case errors.As(err, &number) && errors.Is(number.Err, strconv.ErrRange):
		what = "a number that is not so large"
	case errors.As(err, &number) && number.Func == "ParseFloat":
		what = "a number"
	case errors.As(err, &number) && number.Func == "ParseBool":
		what = "true or false"
	case errors.As(err, &number):
		what = "a whole number"
	case flag.Value.Type() == "duration" && strings.Contains(err.Error(), "time: "):
		what = "a time as 30s or 5m"
	default:
		return err
	}
	return fmt.Errorf("--%s %q: want %s", bad.GetFlag().Name, bad.GetValue(), what)
}

func exitCodes() string {
	var b strings.Builder
	for _, e := range ui.ExitCodes {
		fmt.Fprintf(&b, "  %3d  %s\n", e.Code, e.Meaning)
	}
	return b.String()
}

// KnownVerb refuses a verb that there is not.
func KnownVerb(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := ""
	c.SuggestionsMinimumDistance = 2 // names that are this many changes away; each command has its own
	least := c.SuggestionsMinimumDistance + 1
	for _, name := range c.SuggestionsFor(args[0]) {
		d := text.EditDistance(args[0], name)
		if strings.HasPrefix(name, args[0]) {
			d = min(d, c.SuggestionsMinimumDistance)
		} else if d > (max(len(name), len(args[0]))+2)/3 {
			continue // another word, as pod is of foo
		}
		if d < least {
			least, near = d, fmt.Sprintf(" (did you mean %q?)", name)
		}
	}
	return fmt.Errorf("unknown command %q%s", args[0], near)
}

// Defaults adds to the root of a tree the commands help and completion, which refuse what
// there is not as any other does.
func Defaults(root *cobra.Command) *cobra.Command {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = knownTopic
		case "completion":
			// Without a run function cobra looks at no argument.
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	return root
}

// knownTopic refuses help about a command that there is not.
func knownTopic(c *cobra.Command, args []string) error {
	about, rest, err := c.Root().Find(args)
	if err != nil {
		return err
	}
	return KnownVerb(about, rest)
}

// Words turns the complaints about the words of every command of a tree into usage errors.
func Words(c *cobra.Command) *cobra.Command {
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			if err := check(c, args); err != nil {
				if c.HasSubCommands() { // so the word was to be one of them
					err = cmp.Or(KnownVerb(c, args), err)
				}
				return seeHelp(c, counted(c, args, err))
			}
			return nil
		}
	}
	for _, sub := range c.Commands() {
		Words(sub)
	}
	return c
}

func seeHelp(c *cobra.Command, err error) error {
	return ui.Hinted(ui.Usage, err, fmt.Sprintf("see %s --help", c.CommandPath()))
}

// counted says which words are missing or too many where cobra counts them only.
func counted(c *cobra.Command, args []string, err error) error {
	none := strings.HasSuffix(err.Error(), fmt.Sprintf(" for %q", c.CommandPath())) // cobra.NoArgs
	if !none && !strings.Contains(err.Error(), " arg(s)") {
		return err
	}
	words := words(c.Use)
	var required []string
	for _, w := range words {
		if !strings.HasPrefix(w, "[") {
			required = append(required, strings.ReplaceAll(strings.TrimSuffix(w, "..."), "|", " or "))
		}
	}
	want := strings.Join(append([]string{c.CommandPath()}, words...), " ")
	if missing := required[min(len(args), len(required)):]; len(missing) == 1 {
		return fmt.Errorf("%s is missing: want %s", missing[0], want)
	} else if len(missing) > 1 {
		return fmt.Errorf("%s are missing: want %s", strings.Join(missing, " and "), want)
	}
	if len(args) <= len(words) {
		return err
	}
	return fmt.Errorf("%q is too much: want %s", args[len(words)], want)
}

// words are those of a usage line that stand for what is no option: FILE, [RUN], PROFILE...
func words(use string) []string {
	var out []string
	for _, w := range strings.Fields(use)[1:] {
		if strings.HasPrefix(w, "-") || strings.HasPrefix(w, "(") {
			break
		}
		out = append(out, w)
	}
	return out
}

// MoreFormats is the annotation of a command that has formats beside those of all: their
// names, with spaces between them.
const MoreFormats = "formats"

// Format is the one that --output names for a command.
func Format(c *cobra.Command, output string) (ui.Format, error) {
	var more []ui.Format
	for name := range strings.FieldsSeq(c.Annotations[MoreFormats]) {
		more = append(more, ui.Format(name))
	}
	return ui.ParseFormat(output, more...)
}

// Failure is the JSON form of a command that failed before it had anything to print: the
// messages say why.
type Failure struct {
	Schema string `json:"schema"` // fettle/error/v1
}

// ForPrograms is true when the output is for programs.
func ForPrograms(s *ui.Screen) bool { return s.Format == ui.JSON || s.Format == ui.YAML }

// Calls returns Screen.Call for a program that was called with some arguments.
func Calls(program string, args []string) func(ui.Remedy) string {
	return func(r ui.Remedy) string {
		own, rest := args, []string(nil)
		if end := slices.Index(args, "--"); end >= 0 {
			own, rest = args[:end], args[end:]
		}
		own = without(own, r.Drop)
		for _, option := range r.Instead {
			own = without(own, option)
		}
		own = append(slices.Clip(own), r.Instead...)
		words := slices.Concat(strings.Fields(program), own, r.Options, rest)
		if r.Root {
			words = append([]string{"sudo"}, words...)
		}
		line := text.CommandLine(words)
		if r.Before != "" {
			line = r.Before + " && " + line
		}
		return line
	}
}

// without returns arguments without an option, --name=value, and its values.
func without(args []string, option string) (out []string) {
	name, _, _ := strings.Cut(option, "=")
	for i := 0; i < len(args); i++ {
		switch {
		case args[i] == name:
			i++ // its value
		case !strings.HasPrefix(args[i], name+"="):
			out = append(out, args[i])
		}
	}
	return out
}

// Result prints what came of a command as data, also where err is not nil, and returns
// err. What went wrong is said first, so that it is among the messages.
func Result(s *ui.Screen, doc any, err error) error {
	if err != nil {
		s.Fail(err)
	}
	return errors.Join(err, ui.Data(s, doc, ui.Code(err)))
}

// Ended says what went wrong, if it has not been said, and returns the exit code. Who
// asked for data gets some, also of a failure. Output that could not be written is one.
func Ended(s *ui.Screen, err error) int {
	if err == nil {
		if w, ok := s.Out.(*Out); ok && w.Err != nil {
			s.Say("the output could not be written: %v", w.Err)
			return ui.Failed
		}
		return ui.Done
	}
	if !s.Failed {
		s.Fail(err)
	}
	if ForPrograms(s) && !s.Printed {
		_ = ui.Data(s, Failure{Schema: "fettle/error/v1"}, ui.Code(err))
	}
	return ui.Code(err)
}
