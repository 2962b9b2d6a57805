// Package cliutil is the common part of the command lines of fettle and kubectl fettle. It
// checks flags and arguments: errors have an exit code and a call that works. It also prints
// results and failures. The subpackages are verbs of both programs: size, loadcli (the flags of
// an HTTP load), logscli (the flags and output of logs).
package cliutil

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Root sets up the root of a command tree. Errors are returned and not printed, and unknown
// verbs are rejected. --output is stored in *output, --wide in s.
func Root(c *cobra.Command, s *ui.Screen, output *string) {
	c.SilenceErrors, c.SilenceUsage = true, true
	c.Args = KnownVerb
	c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	c.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		// Report the unknown verb, not its flags, which are unknown too.
		if words := c.Flags().Args(); c.HasSubCommands() && len(words) > 0 {
			err = cmp.Or(c.ValidateArgs(words), err)
		}
		return flagError(c, err)
	})
	c.PersistentFlags().StringVarP(output, "output", "o", "table", "format: table, json, yaml, markdown or html")
	c.PersistentFlags().BoolVar(&s.Wide, "wide", false, "print all columns of tables, without cutting or wrapping")
}

// previews are names of flags by which other programs only show what they would do.
var previews = []string{"dry-run", "dryrun", "check", "simulate", "noop", "no-op", "what-if"}

const previewedBy = "previewed by"

// PreviewedBy sets the hint of a command that has no dry run, because another command shows what it
// would do.
func PreviewedBy(c *cobra.Command, hint string) {
	if c.Annotations == nil {
		c.Annotations = map[string]string{}
	}
	c.Annotations[previewedBy] = hint
}

const secretOption = "secret"

// Secret marks an option whose value is a secret, which no record may have.
func Secret(f *pflag.FlagSet, name string) { _ = f.SetAnnotation(name, secretOption, nil) }

// WithoutSecrets returns a command line with the values of secret options redacted.
func WithoutSecrets(f *pflag.FlagSet, args []string) []string {
	args = slices.Clone(args)
	for i, word := range args {
		if word == "--" {
			break
		}
		name, _, assigned := strings.Cut(strings.TrimPrefix(word, "--"), "=")
		o := f.Lookup(name)
		if o == nil || !strings.HasPrefix(word, "--") {
			continue
		}
		if _, secret := o.Annotations[secretOption]; !secret {
			continue
		}
		if assigned {
			args[i] = "--" + name + "=" + host.Redacted
		} else if i+1 < len(args) {
			args[i+1] = host.Redacted
		}
	}
	return args
}

// flagError adds a remedy to an error of pflag: a valid value, the probable name, or the call
// without the flag.
func flagError(c *cobra.Command, err error) error {
	var bad *pflag.InvalidValueError
	var unknown *pflag.NotExistError
	var bare *pflag.ValueRequiredError
	var odd *pflag.InvalidSyntaxError
	var own *ui.Error
	switch {
	case errors.As(err, &own): // an unknown verb
		return err
	case errors.As(err, &bad):
		flag, cause := bad.GetFlag(), errors.Unwrap(bad)
		works, example := exampleOf(c, flag, bad.GetValue())
		var own interface{ Works() string }
		var number *strconv.NumError
		if errors.As(cause, &own) {
			works, example = own.Works(), false
			err = fmt.Errorf("--%s: %w", flag.Name, cause)
		} else if errors.As(cause, &number) || flag.Value.Type() == "duration" && strings.HasPrefix(cause.Error(), "time: ") {
			err = fmt.Errorf("--%s %q: want %s", flag.Name, bad.GetValue(), formOf(flag.Value.Type(), cause))
		} else if quoted := strconv.Quote(bad.GetValue()); strings.HasPrefix(cause.Error(), quoted) {
			err = fmt.Errorf("--%s %w", flag.Name, cause)
		} else if why, ok := strings.CutPrefix(cause.Error(), "size "+quoted+": "); ok {
			err = fmt.Errorf("--%s %s: %s", flag.Name, quoted, why)
		} else {
			err = fmt.Errorf("--%s %s: %w", flag.Name, quoted, cause)
		}
		if works == "" {
			return &ui.Error{Code: ui.Usage, Err: err, Remedy: &ui.Remedy{Drop: []string{"--" + flag.Name}, Of: bad.GetValue()}}
		}
		return &ui.Error{Code: ui.Usage, Err: err, Remedy: &ui.Remedy{Instead: []string{"--" + flag.Name + "=" + works}, Of: bad.GetValue(), Example: example}}
	case errors.As(err, &bare) && c.HasParent():
		flag := bare.GetFlag()
		err := fmt.Errorf("--%s needs a value", flag.Name)
		if works, example := exampleOf(c, flag, ""); works != "" {
			return &ui.Error{Code: ui.Usage, Err: err, Remedy: &ui.Remedy{Instead: []string{"--" + flag.Name + "=" + works}, Example: example}}
		}
		return &ui.Error{Code: ui.Usage, Err: err, Remedy: &ui.Remedy{Drop: []string{"--" + flag.Name}, To: "without it"}}
	case errors.As(err, &unknown) && !c.HasParent():
		return seeHelp(c, err)
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if short := unknown.GetSpecifiedShortnames(); short != "" {
			return ui.WithoutWord(err, "-"+short)
		}
		var names []string
		meant := ""
		c.Flags().VisitAll(func(f *pflag.Flag) {
			names = append(names, f.Name)
			if slices.Contains(f.Annotations[alsoCalled], name) {
				meant = f.Name
			}
		})
		near := cmp.Or(meant, text.Nearest(name, names))
		if meant != "" || near != "" && text.EditDistance(name, near) <= max(1, len(name)/3) {
			return ui.OtherWord(fmt.Errorf("%w (did you mean --%s?)", err, near), "--"+name, "--"+near)
		}
		if slices.Contains(previews, name) { // the same call without it would act
			return ui.Hinted(ui.Usage, err, cmp.Or(c.Annotations[previewedBy], "without it the command acts; its help says what it can do: "+c.CommandPath()+" --help"))
		}
		return ui.WithoutWord(err, "--"+name)
	case errors.As(err, &odd):
		return ui.WithoutWord(err, odd.GetSpecifiedFlag())
	}
	return seeHelp(c, err)
}

// exitCodes returns a help topic about exit codes: help exit-codes.
func exitCodes() *cobra.Command {
	var b strings.Builder
	for _, e := range ui.ExitCodes {
		fmt.Fprintf(&b, "  %3d  %s\n", e.Code, e.Meaning)
	}
	return &cobra.Command{Use: "exit-codes", Short: "Exit codes of all commands", Long: b.String(), Annotations: map[string]string{pageOf: "output.md"}}
}

// KnownVerb is the Args function of a command that only has subcommands. It returns an error
// for other words.
func KnownVerb(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	near := ""
	c.SuggestionsMinimumDistance = 2 // maximum edit distance of suggestions; set for each command
	least := c.SuggestionsMinimumDistance + 1
	for _, name := range c.SuggestionsFor(args[0]) {
		d := text.EditDistance(args[0], name)
		if strings.HasPrefix(name, args[0]) {
			d = min(d, c.SuggestionsMinimumDistance)
		} else if d > (max(len(name), len(args[0]))+2)/3 {
			continue // unrelated, like pod and foo
		}
		if d < least {
			least, near = d, name
		}
	}
	for _, sub := range c.Commands() {
		if slices.Contains(sub.SuggestFor, args[0]) {
			near = sub.Name()
		}
	}
	if near != "" {
		return ui.OtherWord(fmt.Errorf("unknown command %q (did you mean %q?)", args[0], near), args[0], near)
	}
	return seeHelp(c, fmt.Errorf("unknown command %q", args[0]))
}

// Group returns a command that only has subcommands.
func Group(use, short string, subcommands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: KnownVerb, RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(subcommands...)
	return c
}

// Defaults adds the commands help and completion, and the help topic about exit codes. They
// reject unknown words.
func Defaults(root *cobra.Command) *cobra.Command {
	root.AddCommand(exitCodes())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Args = knownTopic
		case "completion":
			// Without a run function cobra ignores arguments.
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
	return root
}

// knownTopic returns an error for help about an unknown command.
func knownTopic(c *cobra.Command, args []string) error {
	about, rest, err := c.Root().Find(args)
	if err != nil {
		return err
	}
	return KnownVerb(about, rest)
}

// Words completes a command tree. It converts cobra's errors about the number of arguments to
// usage errors with a remedy. It sets examples and manual pages from tables, whose keys are
// command paths without the program's name. It adds completion to flags with few values, and
// makes counts accept 12k and 12,000.
func Words(c *cobra.Command, tables ...map[string]Guide) *cobra.Command {
	var guide Guide
	for _, t := range tables {
		if g, ok := t[strings.TrimPrefix(c.CommandPath(), c.Root().DisplayName()+" ")]; ok {
			guide = g
		}
	}
	if c.Example == "" && len(guide.Calls) > 0 {
		var lines []string
		for _, call := range guide.Calls {
			lines = append(lines, "  "+strings.TrimSpace(c.CommandPath()+" "+call))
		}
		c.Example = strings.Join(lines, "\n")
	}
	if guide.Page != "" {
		if c.Annotations == nil {
			c.Annotations = map[string]string{}
		}
		c.Annotations[pageOf] = guide.Page
	}
	values(c)
	if check := c.Args; check != nil {
		c.Args = func(c *cobra.Command, args []string) error {
			err := check(c, args)
			if own := (*ui.Error)(nil); err == nil || errors.As(err, &own) {
				return err
			}
			if c.HasSubCommands() { // the word was meant to be a subcommand
				return cmp.Or(KnownVerb(c, args), seeHelp(c, err))
			}
			return counted(c, args, err)
		}
	}
	for _, sub := range c.Commands() {
		Words(sub, tables...)
	}
	return c
}

// WrongFile turns the error about a missing file into a usage error if the call names the file,
// because then the call is wrong.
func WrongFile(err error, args []string) error {
	var at *fs.PathError
	if ui.Code(err) != ui.Failed || !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &at) {
		return err
	}
	same := func(name string) bool {
		full, err := filepath.Abs(name)
		return name == at.Path || err == nil && full == at.Path
	}
	for _, word := range args {
		if _, value, _ := strings.Cut(word, "="); same(word) || same(value) {
			return ui.Exit(ui.Usage, err)
		}
	}
	return err
}

// Example returns the example of a command that has most of the given flags, the first if several
// have, on one line; "" if it has none.
func Example(c *cobra.Command) string {
	best, _, _ := strings.Cut(strings.TrimSpace(c.Example), "\n")
	most := 0
	for line := range strings.Lines(c.Example) {
		line = strings.TrimSpace(line)
		if !strings.HasPrefix(line, c.CommandPath()+" ") || strings.HasSuffix(line, "\\") {
			continue
		}
		words, given := strings.Fields(line), 0
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Changed && slices.ContainsFunc(words, func(w string) bool { return w == "--"+f.Name || strings.HasPrefix(w, "--"+f.Name+"=") }) {
				given++
			}
		})
		if given > most {
			best, most = line, given
		}
	}
	return best
}

// ExampleWords returns the arguments at the start of a command's first example.
func ExampleWords(c *cobra.Command) (out []string) {
	for _, w := range text.SplitCommand(strings.TrimPrefix(Example(c), c.CommandPath())) {
		if strings.HasPrefix(w, "-") || w == ">" {
			break
		}
		out = append(out, w)
	}
	return out
}

func seeHelp(c *cobra.Command, err error) error {
	return ui.Hinted(ui.Usage, err, fmt.Sprintf("run: %s --help", c.CommandPath()))
}

// counted returns an error that names the missing or surplus arguments, which cobra only counts.
func counted(c *cobra.Command, args []string, err error) error {
	if n := len(args) - 1; n >= 0 && len(c.ValidArgs) > 0 && strings.HasPrefix(err.Error(), "invalid argument ") {
		return unknownWord(args[n], c.ValidArgs)
	}
	none := strings.HasSuffix(err.Error(), fmt.Sprintf(" for %q", c.CommandPath())) // cobra.NoArgs
	if !none && !strings.Contains(err.Error(), " arg(s)") {
		return seeHelp(c, err)
	}
	words := words(c.Use)
	var required []string
	for _, w := range words {
		if !strings.HasPrefix(w, "[") {
			required = append(required, strings.ReplaceAll(strings.TrimSuffix(w, "..."), "|", " or "))
		}
	}
	want := strings.Join(append([]string{c.CommandPath()}, words...), " ")
	if missing := required[min(len(args), len(required)):]; len(missing) > 0 {
		verb := "are"
		if len(missing) == 1 {
			verb = "is"
		}
		err := fmt.Errorf("%s %s missing: want %s", strings.Join(missing, " and "), verb, want)
		example := ExampleWords(c)
		switch {
		case len(args) == 0 && c.Flags().NFlag() == 0 && c.Example != "" && !strings.Contains(Example(c), ">"): // with the options that it needs
			return ui.Hinted(ui.Usage, err, "for example: "+Example(c))
		case len(example) >= len(required):
			return &ui.Error{Code: ui.Usage, Err: err, Remedy: &ui.Remedy{Options: example[len(args):], Example: true}}
		}
		return seeHelp(c, err)
	}
	if len(args) <= len(words) {
		return seeHelp(c, err)
	}
	return ui.WithoutWord(fmt.Errorf("unexpected argument %q; want %s", args[len(words)], want), args[len(words)])
}

// unknownWord returns an error for an argument that is not one of a few words.
func unknownWord(word string, known []string) error {
	return ui.OtherWord(fmt.Errorf("%q: want %s%s", word, list(known, "or"), text.Suggest(word, known)), word, cmp.Or(text.Nearest(word, known), known[0]))
}

// words returns the arguments in a usage line: FILE, [RUN], PROFILE...
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

// MoreFormats is the annotation for a command's additional output formats, separated by spaces.
const MoreFormats = "formats"

// Format returns the format that --output selects.
func Format(c *cobra.Command) (ui.Format, error) {
	output, _ := c.Flags().GetString("output")
	var more []ui.Format
	for name := range strings.FieldsSeq(c.Annotations[MoreFormats]) {
		more = append(more, ui.Format(name))
	}
	f, err := ui.ParseFormat(output, more...)
	if err != nil {
		all := append(slices.Clone(more), ui.Formats...)
		near := text.Nearest(output, strings.Fields(strings.Trim(fmt.Sprint(all), "[]")))
		return f, ui.Instead(ui.Usage, err, "", "--output="+cmp.Or(near, string(ui.Table)))
	}
	return f, nil
}

// SetFormat sets the screen to the format that --output selects. call is the command line.
func SetFormat(c *cobra.Command, s *ui.Screen, call string) (err error) {
	if s.Format, err = Format(c); err == nil && s.Format == ui.HTML {
		s.StartPage(c.CommandPath(), call)
	}
	return err
}

// Failure is the JSON form of a command that failed before it had a result. Its messages
// contain the reason.
type Failure struct {
	Schema string `json:"schema"` // fettle/error/v1
}

// ForPrograms reports whether the output is JSON or YAML.
func ForPrograms(s *ui.Screen) bool { return s.Format == ui.JSON || s.Format == ui.YAML }

// Result prints a result as data, even if err is not nil, and returns err. It reports err
// first, so the document's messages include it.
func Result(s *ui.Screen, doc any, err error) error {
	if err != nil {
		s.Fail(err)
	}
	return errors.Join(err, ui.Data(s, doc, ui.Code(err)))
}

// Ended reports the error of a command, unless it was reported already, and returns the exit code.
// With --output json or yaml a failure is a document too. A failed write of the output is a
// failure.
func Ended(s *ui.Screen, err error) int {
	if err != nil && !s.Failed {
		s.Fail(err)
	}
	err = errors.Join(err, s.EndPage())
	if err == nil {
		if w, ok := s.Out.(*Out); ok && w.Err != nil {
			s.Say("cannot write the output: %v", w.Err)
			return ui.Failed
		}
		return ui.Done
	}
	if ForPrograms(s) && !s.Printed {
		_ = ui.Data(s, Failure{Schema: "fettle/error/v1"}, ui.Code(err))
	}
	return ui.Code(err)
}
