package sizing

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Input is one input of a request, and an option of the command line. It implements pflag.Value.
type Input struct {
	Name string // of the option: "pods-per-node"
	Doc  string
	// Kind is the type in the help text: "count", "size", ...
	Kind string
	// File is true if the value is the text of a file that the user names.
	File bool
	// Choices are the accepted words; nil if any value is accepted.
	Choices []string

	set   func(string) error
	print func() string
	given bool
	path  string // of the file
	from  string // origin of a value that the user did not set
	why   string // reason for the range
}

// InputError is an error that another input would avoid.
type InputError struct {
	Input string // name of the input
	Err   error
	Works []string // options, --name=value, with which the call would work; nil if unknown
}

func (e *InputError) Error() string {
	message := e.Err.Error()
	if !strings.HasPrefix(message, `"`) { // the value
		message = ": " + message
	} else {
		message = " " + message
	}
	return "--" + e.Input + message
}
func (e *InputError) Unwrap() error { return e.Err }

// Bad returns an InputError.
func Bad(input, format string, args ...any) error {
	return &InputError{Input: input, Err: fmt.Errorf(format, text.Numbers(args)...)}
}

// Instead returns an InputError that suggests another value for the input.
func Instead(input string, works any, format string, args ...any) error {
	return &InputError{input, fmt.Errorf(format, text.Numbers(args)...), []string{fmt.Sprintf("--%s=%v", input, works)}}
}

// OtherOptions returns an InputError that suggests options, --name=value, with which the call
// works.
func OtherOptions(input string, works []string, format string, args ...any) error {
	return &InputError{input, fmt.Errorf(format, text.Numbers(args)...), works}
}

// Because sets the reason for the range. Errors about values outside the range contain it.
func (in *Input) Because(why string) *Input {
	in.why = why
	return in
}

// valueError is the error about a rejected value, with the nearest accepted one.
type valueError struct {
	error
	works string
}

// Wrong returns the error about a rejected value, with an accepted one.
func Wrong(err error, works string) error { return &valueError{err, works} }

// Works returns a value that the input accepts.
func (e *valueError) Works() string { return e.works }

// outside returns the error of a value outside of the range.
func (in *Input) outside(value, is, bound, least, most any) error {
	works, reason := fmt.Sprint(bound), ""
	if n, ok := bound.(float64); ok {
		works = unit.Exact(n)
	}
	if in.why != "" {
		reason = " (" + in.why + ")"
	}
	err := errors.New(text.Sprintf("%v is %s than %v: want %v to %v%s", value, is, bound, least, most, reason))
	if n, count := least.(int); count && n <= 1 && is == "less" {
		return err // do not suggest the smallest value; it is rarely useful
	}
	return &valueError{err, works}
}

// setWithin sets a number that is in a range. value is the number as the error prints it.
func setWithin[T cmp.Ordered](in *Input, to *T, n T, value string, least, most T) error {
	switch {
	case n < least:
		return in.outside(value, "less", least, least, most)
	case n > most:
		return in.outside(value, "more", most, least, most)
	}
	*to = n
	return nil
}

// oneOf returns the error of a word that is not among the accepted ones.
func oneOf(word string, words []string, works func(nearest string) string) error {
	err := fmt.Errorf("%q: want %s%s", word, strings.Join(words, ", "), text.Suggest(word, words))
	if nearest := text.Nearest(word, words); nearest != "" {
		return &valueError{err, works(nearest)}
	}
	return err
}

// Set parses a value as a user writes it. An empty value is an error.
func (in *Input) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		if in.File {
			return errors.New("the file is empty")
		}
		return errors.New("empty value; omit the option, or set the shell variable that gives its value")
	}
	if err := in.set(text); err != nil {
		return err
	}
	in.given = true
	return nil
}

// SetFile sets the text of a file, and keeps its path.
func (in *Input) SetFile(path, text string) error {
	in.path = path
	return in.Set(text)
}

// Path returns the file that the value comes from, or "".
func (in *Input) Path() string { return in.path }

// Assume sets a value that the user did not set, with its origin ("this machine").
func (in *Input) Assume(text, from string) error {
	if err := in.Set(text); err != nil {
		return err
	}
	in.from = from
	return nil
}

// String prints the value as Set parses it.
func (in *Input) String() string {
	if in.print == nil {
		return ""
	}
	return in.print()
}

// Type implements pflag.Value.
func (in *Input) Type() string { return in.Kind }

// Given reports whether a value has been set.
func (in *Input) Given() bool { return in.given }

// Count returns an input for a whole number in a range. If the range excludes 0, 0 means not set.
func Count(to *int, name, doc string, least, most int) *Input {
	in := &Input{
		Name: name, Doc: doc, Kind: "count",
		print: func() string {
			if *to == 0 && least > 0 {
				return ""
			}
			return strconv.Itoa(*to)
		},
	}
	in.set = func(s string) error {
		n, err := strconv.Atoi(unit.PlainCount(s)) // beyond its range the largest or smallest number
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return fmt.Errorf("%q is not a whole number such as 12,000 or 12k", s)
		}
		return setWithin(in, to, n, s, least, most)
	}
	return in
}

// Number returns an input for a number in a range; a fraction is allowed.
func Number(to *float64, name, doc string, least, most float64) *Input {
	in := &Input{
		Name: name, Doc: doc, Kind: "number",
		print: func() string {
			if *to == 0 && least > 0 {
				return ""
			}
			return unit.Exact(*to)
		},
	}
	in.set = func(s string) error {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
			return fmt.Errorf("%q is not a number", s)
		}
		return setWithin(in, to, n, s, least, most)
	}
	return in
}

// Size returns an input for a size of memory or of a file: 16GiB. Every unit is a power of
// 1024, GB as well as GiB, as memory is sold and as PostgreSQL and the kernel write it.
func Size(to *unit.Size, name, doc string, least, most unit.Size) *Input {
	return size(to, name, doc, least, most, unit.ParseSize, unit.Size.String)
}

// Disk is Size for disks: kB, MB, GB, TB and PB are powers of 1000, as in disk sales and in the
// tables of disk space.
func Disk(to *unit.Size, name, doc string, least, most unit.Size) *Input {
	return size(to, name, doc, least, most, parseDisk, printDisk)
}

// Gibibytes is Size, but a number without a unit is in GiB.
func Gibibytes(to *unit.Size, name, doc string, least, most unit.Size) *Input {
	const gib = unit.GiB
	print := func(n unit.Size) string {
		if n%gib == 0 {
			return strconv.FormatUint(uint64(n/gib), 10)
		}
		return n.String()
	}
	in := size(to, name, doc, least, most, unit.ParseSize, print)
	withUnit := in.set
	in.set = func(s string) error {
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64) // beyond its range the largest or smallest number
		if err != nil && !errors.Is(err, strconv.ErrRange) {
			return withUnit(s)
		}
		if err := setWithin(in, &n, n, s, int64(least/gib), int64(most/gib)); err != nil {
			return err
		}
		*to = unit.Size(n) * gib
		return nil
	}
	return in
}

func size(to *unit.Size, name, doc string, least, most unit.Size, parse func(string) (unit.Size, error), print func(unit.Size) string) *Input {
	in := &Input{
		Name: name, Doc: doc, Kind: "size",
		print: func() string {
			if *to == 0 {
				return ""
			}
			return print(*to)
		},
	}
	in.set = func(s string) error {
		n, err := parse(s)
		if err != nil {
			return err
		}
		if bare := unit.Bare(s, least, most); n < least && bare != nil {
			return fmt.Errorf("%w want %s to %s", bare, print(least), print(most))
		}
		return setWithin(in, to, n, print(n), least, most)
	}
	return in
}

// Word returns an input for one of a few words.
func Word(to *string, name, doc string, words ...string) *Input {
	return &Input{
		Name: name, Doc: doc, Kind: strings.Join(words, "|"), Choices: words,
		set: func(s string) error {
			if !slices.Contains(words, s) {
				return oneOf(s, words, func(nearest string) string { return nearest })
			}
			*to = s
			return nil
		},
		print: func() string { return *to },
	}
}

// Words returns an input for a list of a few words, separated by commas.
func Words(to *[]string, name, doc string, words ...string) *Input {
	return &Input{
		Name: name, Doc: doc, Kind: "list", Choices: words,
		set: func(s string) error {
			var list []string
			for w := range strings.SplitSeq(s, ",") {
				if w = strings.TrimSpace(w); !slices.Contains(words, w) {
					return oneOf(w, words, func(nearest string) string { return strings.ReplaceAll(s, w, nearest) })
				}
				if !slices.Contains(list, w) {
					list = append(list, w)
				}
			}
			*to = list
			return nil
		},
		print: func() string { return strings.Join(*to, ",") },
	}
}

// Text returns an input for text that passes a check, which may be nil.
func Text(to *string, name, doc string, check func(string) error) *Input {
	return &Input{
		Name: name, Doc: doc, Kind: "text",
		set: func(s string) error {
			if check != nil {
				if err := check(s); err != nil {
					return err
				}
			}
			*to = s
			return nil
		},
		print: func() string { return *to },
	}
}

// Repeated returns an input that may be set several times. add adds a value; print prints all.
func Repeated(name, doc, kind string, add func(string) error, print func() string) *Input {
	return &Input{Name: name, Doc: doc, Kind: kind, set: add, print: print}
}

// FileText returns an input for the text of a file; String prints the file's name.
func FileText(to *string, name, doc string) *Input {
	in := Text(to, name, doc, nil)
	in.Kind, in.File = "file", true
	in.print = in.Path
	return in
}

// Truth returns an input for true or false.
func Truth(to *bool, name, doc string) *Input {
	return &Input{
		Name: name, Doc: doc, Kind: "bool",
		set: func(s string) error {
			v, err := strconv.ParseBool(s)
			if err != nil {
				return fmt.Errorf("%q: want true or false", s)
			}
			*to = v
			return nil
		},
		print: func() string { return strconv.FormatBool(*to) },
	}
}

// IsBoolFlag reports whether the option alone means true.
func (in *Input) IsBoolFlag() bool { return in.Kind == "bool" }

// Net returns an input for a network of IPv4 addresses: 10.128.0.0/14.
func Net(to *netip.Prefix, name, doc string) *Input {
	return &Input{
		Name: name, Doc: doc, Kind: "cidr",
		set: func(s string) error {
			p, err := netip.ParsePrefix(s)
			switch {
			case err != nil:
				return fmt.Errorf("%q is not a network such as 10.128.0.0/14", s)
			case !p.Addr().Is4():
				return fmt.Errorf("%s: only IPv4 networks are supported", s)
			case p.Masked() != p:
				return &valueError{fmt.Errorf("%s is an address in the network %s; give the network itself", s, p.Masked()), p.Masked().String()}
			}
			*to = p
			return nil
		},
		print: func() string {
			if !to.IsValid() {
				return ""
			}
			return to.String()
		},
	}
}

// RecordInputs adds the used inputs to the result.
func (r *Result) RecordInputs(inputs []*Input) {
	for _, in := range inputs {
		s := InputValue{Name: in.Name, Value: in.String(), From: "default"}
		if in.given {
			s.From = cmp.Or(in.from, "asked")
		}
		if s.Value == "" && !in.given || in.Kind == "bool" && s.Value == "false" {
			continue
		}
		r.Inputs = append(r.Inputs, s)
	}
}
