package cliutil

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// checked is an option value that is validated during parsing. An invalid value is a usage
// error that suggests a valid one.
type checked struct {
	pflag.Value
	check func(word string) error  // called before the value is set
	works func(word string) string // returns the nearest valid value
	words []string                 // all values, if few
}

// Set implements pflag.Value.
func (c *checked) Set(word string) error {
	if err := c.check(word); err != nil {
		return err
	}
	return c.Value.Set(word)
}

// checkedList is a checked value of a repeatable option.
type checkedList struct {
	*checked
	pflag.SliceValue
}

func check(f *pflag.FlagSet, name string, look func(word string) error, works func(word string) string) {
	flag := f.Lookup(name)
	c := &checked{Value: flag.Value, check: look, works: works}
	flag.Value = c
	if values, ok := c.Value.(pflag.SliceValue); ok {
		flag.Value = &checkedList{c, values}
	}
}

// OneOf restricts an option to the given words.
func OneOf(f *pflag.FlagSet, name string, words ...string) {
	check(f, name, func(word string) error {
		if !slices.Contains(words, word) {
			return fmt.Errorf("want %s%s", list(words, "or"), text.Suggest(word, words))
		}
		return nil
	}, func(word string) string { return cmp.Or(text.Nearest(word, words), words[0]) })
	f.Lookup(name).Value.(interface{ setWords([]string) }).setWords(words)
}

func (c *checked) setWords(words []string) { c.words = words }

func (c *checked) choices() []string { return c.words }

// Choices returns all values of a flag that accepts only a few, or nil.
func Choices(f *pflag.Flag) []string {
	if v, ok := f.Value.(interface{ choices() []string }); ok {
		return v.choices()
	}
	return nil
}

// AlsoCalled makes errors about the unknown options words suggest the flag.
func AlsoCalled(f *pflag.FlagSet, name string, words ...string) {
	_ = f.SetAnnotation(name, alsoCalled, words)
}

// alsoCalled is the annotation for other names of a flag.
const alsoCalled = "also-called"

// Complete sets the completions of arguments and flags in a command tree: the given ones, and those
// of --output and of flags with few values. A key is a command path without the program's name,
// such as "runs show", optionally with a flag, such as "logs --by"; " --context" is a flag of the
// program. Keys of commands outside the tree are ignored.
//
// It does so only if args is a call by a shell's completion, or empty (tests and manuals). In other
// calls it would waste memory: cobra keeps each flag with a completion, and so the whole command
// tree, until the program ends.
func Complete(root *cobra.Command, args []string, completions ...map[string]cobra.CompletionFunc) {
	if len(args) > 0 && !strings.HasPrefix(args[0], cobra.ShellCompRequestCmd) {
		return
	}
	for _, some := range completions {
		complete(root, some)
	}
	_ = root.RegisterFlagCompletionFunc("output", func(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return append(ui.FormatNames(), strings.Fields(c.Annotations[MoreFormats])...), cobra.ShellCompDirectiveNoFileComp
	})
	completeChoices(root)
}

func completeChoices(c *cobra.Command) {
	for _, flags := range []*pflag.FlagSet{c.Flags(), c.PersistentFlags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if words := Choices(f); len(words) > 0 {
				_ = c.RegisterFlagCompletionFunc(f.Name, Fixed(words...))
			}
		})
	}
	for _, sub := range c.Commands() {
		completeChoices(sub)
	}
}

func complete(root *cobra.Command, completions map[string]cobra.CompletionFunc) {
	for key, f := range completions {
		path, flag, ofFlag := strings.Cut(key, " --")
		c, rest, err := root.Find(strings.Fields(path))
		switch {
		case err != nil || len(rest) > 0 || c == root && !ofFlag:
		case ofFlag:
			_ = c.RegisterFlagCompletionFunc(flag, f)
		default:
			c.ValidArgsFunction = f
		}
	}
}

// Fixed returns a completion of a few words.
func Fixed(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// ListOf returns a completion of the last word in a comma-separated list.
func ListOf(words ...string) cobra.CompletionFunc {
	return func(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		had := typed[:strings.LastIndex(typed, ",")+1]
		out := make([]string, len(words))
		for i, w := range words {
			out[i] = had + w
		}
		return out, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	}
}

// values prepares the flags of a command: counts accept 12k and 12,000. Commands without arguments
// do not complete file names.
func values(c *cobra.Command) {
	if len(words(c.Use)) == 0 && c.Args != nil && c.ValidArgsFunction == nil && c.Args(c, []string{"x"}) != nil {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
	prepare := func(f *pflag.Flag) {
		if t := f.Value.Type(); t == "int" || t == "uint64" || t == "int64" {
			f.Value = &count{f.Value}
		}
	}
	c.Flags().VisitAll(prepare)
	c.PersistentFlags().VisitAll(prepare)
}

// count is a whole number that may be written as 12k or 12,000.
type count struct{ pflag.Value }

// Set implements pflag.Value.
func (c *count) Set(word string) error { return c.Value.Set(unit.PlainCount(word)) }

// list joins words with commas and last, such as "or": a, b or c.
func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}

// Reads restricts an option to values for which read returns no error. example is a valid value.
func Reads(f *pflag.FlagSet, name, example string, read func(word string) error) {
	check(f, name, read, func(string) string { return example })
}

// Once rejects an option that is given twice, whose last value would win. advice says what to do.
func Once(f *pflag.FlagSet, name, advice string) {
	given := false
	check(f, name, func(string) error {
		if given {
			return &twiceError{advice}
		}
		given = true
		return nil
	}, func(word string) string { return word })
}

type twiceError struct{ advice string }

func (e *twiceError) Error() string { return "given twice; " + e.advice }

// Works makes flagError suggest the call without the second one.
func (e *twiceError) Works() string { return "" }

// Percent restricts an option to a percentage above 0 % and up to 100 %.
func Percent(f *pflag.FlagSet, name, example string) {
	Reads(f, name, example, func(word string) error {
		ratio, err := unit.ParsePercent(word)
		if err == nil && !(ratio > 0 && ratio <= 1) {
			err = errors.New("want more than 0% and at most 100%")
		}
		return err
	})
}

// number is a type whose values Between can limit.
type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Between restricts an option to numbers or times from least to most, in the option's unit. An
// error about an unparsable value suggests example.
func Between[N number](f *pflag.FlagSet, name string, least, most, example N) {
	check(f, name, func(word string) error {
		n, err := parse[N](word)
		if err != nil {
			return fmt.Errorf("want %s", formOf(f.Lookup(name).Value.Type(), err))
		}
		if n < least || n > most || n != n {
			return fmt.Errorf("want %s to %s", forPeople(least), forPeople(most))
		}
		return nil
	}, func(word string) string {
		n, err := parse[N](word)
		if err != nil {
			n = example
		}
		return show(min(max(n, least), most))
	})
}

func parse[N number](word string) (n N, err error) {
	switch p := any(&n).(type) {
	case *time.Duration:
		*p, err = time.ParseDuration(word)
	case *int:
		var i int64
		i, err = strconv.ParseInt(word, 0, strconv.IntSize) // like pflag
		*p = int(i)
	case *int64:
		*p, err = strconv.ParseInt(word, 0, 64)
	case *uint64:
		*p, err = strconv.ParseUint(word, 0, 64)
	case *float64:
		*p, err = strconv.ParseFloat(word, 64)
	}
	return n, err
}

// forPeople formats a number or time of a message.
func forPeople[N number](n N) string {
	if d, ok := any(n).(time.Duration); ok {
		return show(d)
	}
	return text.Sprintf("%v", n)
}

// show formats a number as the option accepts it: 24h instead of 24h0m0s.
func show[N number](n N) string {
	d, ok := any(n).(time.Duration)
	if !ok {
		return fmt.Sprint(n)
	}
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// exampleOf returns a valid value as replacement of an invalid one: the nearest value if the
// option knows it. Otherwise it is an example of this command, or of another command with the
// same option. example is true unless the value is similar to the invalid one, or the default.
func exampleOf(c *cobra.Command, flag *pflag.Flag, value string) (works string, example bool) {
	works = worksFor(flag, value)
	of := flag.Value
	if c, ok := of.(*count); ok {
		of = c.Value
	}
	if _, knows := of.(interface{ worksFor(word string) string }); knows || works == "" {
		return works, works != flag.DefValue && text.Nearest(value, Choices(flag)) == ""
	}
	after := regexp.MustCompile(`(?m) --` + regexp.QuoteMeta(flag.Name) + `[= ]([\w.,:%/]+)(?: |$)`)
	find := func(of *cobra.Command) bool {
		m := after.FindStringSubmatch(of.Example)
		if m != nil && flag.Value.Type() != "bool" {
			works = m[1]
		}
		return m != nil
	}
	var among func(of *cobra.Command) bool
	among = func(of *cobra.Command) bool {
		return slices.ContainsFunc(of.Commands(), func(sub *cobra.Command) bool {
			same := sub.Flags().Lookup(flag.Name)
			return same != nil && same.Value.Type() == flag.Value.Type() && find(sub) || among(sub)
		})
	}
	_ = find(c) || among(c.Root())
	return works, true
}

// worksFor returns a valid value as replacement of an invalid one: the check's suggestion, the
// default, or a value of the type. For free text it returns "".
func worksFor(flag *pflag.Flag, value string) string {
	of := flag.Value
	if c, ok := of.(*count); ok {
		of, value = c.Value, unit.PlainCount(value)
	}
	if c, ok := of.(interface{ worksFor(word string) string }); ok {
		return c.worksFor(value)
	}
	if d := strings.Trim(flag.DefValue, "[]"); d != "" && d != "0" && d != "0s" && d != "false" {
		return d
	}
	kind := flag.Value.Type()
	if first, _, choice := strings.Cut(kind, "|"); choice {
		return first
	}
	return map[string]string{"bool": "true", "duration": "30s", "size": "64GiB", "int": "1", "int64": "1", "uint64": "1", "intSlice": "1", "float64": "1", "count": "1", "number": "1"}[kind]
}

func (c *checked) worksFor(word string) string { return c.works(word) }

// formOf describes the valid values of a type, for an error about an unparsable value.
func formOf(of string, err error) string {
	var number *strconv.NumError
	switch {
	case errors.As(err, &number) && errors.Is(number.Err, strconv.ErrRange):
		return "a smaller number"
	case of == "duration":
		return "a time such as 30s or 5m"
	case strings.HasPrefix(of, "float"):
		return "a number"
	case of == "bool":
		return "true or false"
	}
	return "a whole number"
}

// OfOption adds the name of an option to an error; nil stays nil.
func OfOption(option string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", option, err)
	}
	return nil
}

// OrUsage makes an error without an exit code a usage error.
func OrUsage(err error) error {
	if err == nil || errors.As(err, new(*ui.Error)) {
		return err
	}
	return ui.Exit(ui.Usage, err)
}
