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
	"fettle.dev/fettle/internal/unit"
)

// checked is an option value that is validated during parsing, so that an invalid one is a
// usage error that suggests a valid one.
type checked struct {
	pflag.Value
	check func(word string) error  // before it is set
	works func(word string) string // the nearest value that it takes
	words []string                 // all values, if they are few
}

// Set implements pflag.Value.
func (c *checked) Set(word string) error {
	if err := c.check(word); err != nil {
		return err
	}
	return c.Value.Set(word)
}

// checkedList is a checked value of an option that may be repeated.
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

// Choices returns the values of a flag that accepts only a few; nil for others.
func Choices(f *pflag.Flag) []string {
	if v, ok := f.Value.(interface{ choices() []string }); ok {
		return v.choices()
	}
	return nil
}

// AlsoCalled lets the error about an unknown option propose the flag instead: duration for
// --for.
func AlsoCalled(f *pflag.FlagSet, name string, words ...string) {
	_ = f.SetAnnotation(name, alsoCalled, words)
}

// alsoCalled is the annotation of a flag with other words for it.
const alsoCalled = "also-called"

// Complete sets the completion of arguments and flags in a tree of commands. Keys are command
// paths without the program's name, "runs show", or those with a flag, "logs --by". Keys of
// other commands than those of the tree are ignored.
func Complete(root *cobra.Command, completions map[string]cobra.CompletionFunc) {
	for key, f := range completions {
		path, flag, ofFlag := strings.Cut(key, " --")
		c, rest, err := root.Find(strings.Fields(path))
		switch {
		case err != nil || len(rest) > 0 || c == root:
		case ofFlag:
			_ = c.RegisterFlagCompletionFunc(flag, f)
		default:
			c.ValidArgsFunction = f
		}
	}
}

// Fixed completes a few words.
func Fixed(words ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// ListOf completes the last of several words that are separated by commas.
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

// values prepares the flags of a command: those that accept a few words are completed, and
// counts accept 12k and 12,000.
func values(c *cobra.Command) {
	prepare := func(f *pflag.Flag) {
		if words := Choices(f); len(words) > 0 {
			_ = c.RegisterFlagCompletionFunc(f.Name, Fixed(words...))
		}
		if t := f.Value.Type(); t == "int" || t == "uint64" || t == "int64" {
			f.Value = &count{f.Value}
		}
	}
	c.Flags().VisitAll(prepare)
	c.PersistentFlags().VisitAll(prepare)
}

// count is a whole number that may be written with thousands: 12k, 12,000.
type count struct{ pflag.Value }

// Set implements pflag.Value.
func (c *count) Set(word string) error { return c.Value.Set(unit.PlainCount(word)) }

// list joins words for a sentence: a, b or c.
func list(words []string, last string) string {
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " " + last + " " + words[len(words)-1]
}

// Reads restricts an option to what read accepts; example is such a value.
func Reads(f *pflag.FlagSet, name, example string, read func(word string) error) {
	check(f, name, read, func(string) string { return example })
}

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

// number is a type that Between can limit.
type number interface {
	~int | ~int64 | ~uint64 | ~float64
}

// Between restricts an option to numbers or times from least to most, in the option's unit. If
// a value cannot be parsed, the error proposes the example.
func Between[N number](f *pflag.FlagSet, name string, least, most, example N) {
	check(f, name, func(word string) error {
		n, err := parse[N](word)
		if err != nil {
			return fmt.Errorf("want %s", formOf(f.Lookup(name).Value.Type(), err))
		}
		if n < least || n > most || n != n {
			return fmt.Errorf("want %s to %s", show(least), show(most))
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
		i, err = strconv.ParseInt(word, 0, strconv.IntSize) // as pflag reads it
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

// show prints a number as the option accepts it: 24h instead of 24h0m0s.
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

// exampleOf returns a valid value to use instead of an invalid one. It is an example, of the
// command or of another one with the same option, unless the option knows a nearest value.
func exampleOf(c *cobra.Command, flag *pflag.Flag, value string) (works string, example bool) {
	works = worksFor(flag, value)
	of := flag.Value
	if c, ok := of.(*count); ok {
		of = c.Value
	}
	if _, knows := of.(interface{ worksFor(word string) string }); knows || works == "" {
		return works, len(Choices(flag)) == 0
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

// worksFor returns a valid value to use instead of an invalid one: the proposal of the option's
// check, its default, or a value of its type. It returns "" for free text.
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

// formOf describes the valid values of a type, for errors about a value that cannot be parsed.
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
