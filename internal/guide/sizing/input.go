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

// Input is one thing that can be said of a wish. It is an option of the command
// line (it has the methods of pflag.Value).
type Input struct {
	Name string // as the option: "pods-per-node"
	Doc  string
	// Kind is "count", "size", ... for the help text.
	Kind string
	// File is true where the value is the text of a file that the caller names.
	File bool
	// Choices are the words that it takes, where it takes a few only.
	Choices []string

	set   func(string) error
	print func() string
	given bool
	path  string // of the file that the value is the text of
	from  string // where the value is from, if nobody said it
	why   string // of the range
}

// InputError is a wish that cannot be granted as it was said.
type InputError struct {
	Input string // name of the input
	Err   error
	Works []string // options, --name=value, with which the same call works; nil: not known
}

func (e *InputError) Error() string { return "--" + e.Input + ": " + e.Err.Error() }
func (e *InputError) Unwrap() error { return e.Err }

// Bad is an error about an input.
func Bad(input, format string, args ...any) error {
	return &InputError{Input: input, Err: fmt.Errorf(format, args...)}
}

// Instead is Bad about an input for which another value works.
func Instead(input string, works any, format string, args ...any) error {
	return &InputError{input, fmt.Errorf(format, args...), []string{fmt.Sprintf("--%s=%v", input, works)}}
}

// OtherOptions is Bad about an input for which the same call works with other options,
// --name=value.
func OtherOptions(input string, works []string, format string, args ...any) error {
	return &InputError{input, fmt.Errorf(format, args...), works}
}

// Because says why an input has the range that it has, for who is outside of it.
func (in *Input) Because(why string) *Input {
	in.why = why
	return in
}

// valueError is a value that an input does not take, and the nearest one that it does.
type valueError struct {
	error
	works string
}

// Wrong is the error of a value that an input does not take, with one that it does.
func Wrong(err error, works string) error { return &valueError{err, works} }

// Works is a value that the input takes.
func (e *valueError) Works() string { return e.works }

// outside is the error of a value that is not in the range.
func (in *Input) outside(value, is, bound, least, most any) error {
	reason := ""
	if in.why != "" {
		reason = " (" + in.why + ")"
	}
	return &valueError{fmt.Errorf("%v is %s than %v: want %v to %v%s", value, is, bound, least, most, reason), fmt.Sprint(bound)}
}

// oneOf is the error of a word that is not among some.
func oneOf(word string, words []string, works func(nearest string) string) error {
	err := fmt.Errorf("%q: want %s%s", word, strings.Join(words, ", "), text.Suggest(word, words))
	if nearest := text.Nearest(word, words); nearest != "" {
		return &valueError{err, works(nearest)}
	}
	return err
}

// Set takes a value as a person writes it; an empty one is none.
func (in *Input) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		if in.File {
			return errors.New("the file is empty")
		}
		return errors.New("it is empty: leave it out, or set the variable that it comes from")
	}
	if err := in.set(text); err != nil {
		return err
	}
	in.given = true
	return nil
}

// SetFile takes the text of a file, and remembers which one it was.
func (in *Input) SetFile(path, text string) error {
	in.path = path
	return in.Set(text)
}

// Path is the file that the value is the text of; "" where none was named.
func (in *Input) Path() string { return in.path }

// Assume takes a value that nobody has said, and where it is from ("this machine").
func (in *Input) Assume(text, from string) error {
	if err := in.Set(text); err != nil {
		return err
	}
	in.from = from
	return nil
}

// String prints the value as Set reads it.
func (in *Input) String() string {
	if in.print == nil {
		return ""
	}
	return in.print()
}

// Type is the kind of value, for the help text.
func (in *Input) Type() string { return in.Kind }

// Given is true once a value has been set.
func (in *Input) Given() bool { return in.given }

// Count is a whole number between two others. 0 stands for not given where least
// is above it.
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
		n, err := strconv.Atoi(plainCount(s))
		switch {
		case errors.Is(err, strconv.ErrRange) && s[0] != '-', err == nil && n > most:
			return in.outside(s, "more", most, least, most)
		case errors.Is(err, strconv.ErrRange), err == nil && n < least:
			return in.outside(s, "less", least, least, most)
		case err != nil:
			return fmt.Errorf("%q is not a whole number: want one as 12000, 12,000 or 12k", s)
		}
		*to = n
		return nil
	}
	return in
}

// plainCount is a whole number without what people write into one: 12k and 12,000 are 12000.
func plainCount(s string) string {
	if digits, thousands := strings.CutSuffix(s, "k"); thousands && digits != "" && strings.Trim(digits, "0123456789") == "" {
		return digits + "000"
	}
	groups := strings.Split(strings.TrimPrefix(s, "-"), ",")
	for i, g := range groups {
		if len(g) > 3 || len(g) < 3 && i > 0 || g == "" {
			return s
		}
	}
	return strings.ReplaceAll(s, ",", "")
}

// Number is a number between two others; a fraction is allowed.
func Number(to *float64, name, doc string, least, most float64) *Input {
	in := &Input{
		Name: name, Doc: doc, Kind: "number",
		print: func() string {
			if *to == 0 && least > 0 {
				return ""
			}
			return strconv.FormatFloat(*to, 'g', -1, 64)
		},
	}
	in.set = func(s string) error {
		n, err := strconv.ParseFloat(s, 64)
		switch {
		case err != nil || math.IsNaN(n) || math.IsInf(n, 0):
			return fmt.Errorf("%q is no number", s)
		case n < least:
			return in.outside(s, "less", plain(least), plain(least), plain(most))
		case n > most:
			return in.outside(s, "more", plain(most), plain(least), plain(most))
		}
		*to = n
		return nil
	}
	return in
}

func plain(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// Size is a size of memory or of a file in bytes with a unit: 16GiB. Every unit is
// a power of 1024, GB as well as GiB: memory is sold so, and PostgreSQL and the
// kernel write it so.
func Size(to *unit.Size, name, doc string, least, most unit.Size) *Input {
	return size(to, name, doc, least, most, unit.ParseSize, unit.Size.String)
}

// Disk is the size of a disk: as Size, but kB, MB, GB, TB and PB are powers of
// 1000, as disks are sold and as the tables of disk space have them.
func Disk(to *unit.Size, name, doc string, least, most unit.Size) *Input {
	return size(to, name, doc, least, most, parseDisk, printDisk)
}

// Gigabytes is as Size, and a bare number is one of 10^9 bytes.
func Gigabytes(to *unit.Size, name, doc string, least, most unit.Size) *Input {
	const gb = 1_000_000_000
	print := func(n unit.Size) string {
		if n%gb == 0 {
			return strconv.FormatUint(uint64(n/gb), 10)
		}
		return n.String()
	}
	in := size(to, name, doc, least, most, unit.ParseSize, print)
	withUnit := in.set
	in.set = func(s string) error {
		n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		tooMany := errors.Is(err, strconv.ErrRange)
		low, high := int64(least/gb), int64(most/gb)
		switch {
		case err != nil && !tooMany:
			return withUnit(s)
		case n < low:
			return in.outside(s, "less", low, low, high)
		case n > high || tooMany:
			return in.outside(s, "more", high, low, high)
		}
		*to = unit.Size(n) * gb
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
		switch {
		case err != nil:
			return err
		case n < least:
			return in.outside(print(n), "less", least, least, most)
		case n > most:
			return in.outside(print(n), "more", most, least, most)
		}
		*to = n
		return nil
	}
	return in
}

// Word is one of a few words.
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

// Words is a list of a few words, with commas between them.
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

// Text is any text that a check has nothing against.
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

// Repeated is what may be said more than once: add takes one more, and print
// prints all.
func Repeated(name, doc, kind string, add func(string) error, print func() string) *Input {
	return &Input{Name: name, Doc: doc, Kind: kind, set: add, print: print}
}

// FileText is the text of a file that is named; what is printed is the name.
func FileText(to *string, name, doc string) *Input {
	in := Text(to, name, doc, nil)
	in.Kind, in.File = "file", true
	in.print = in.Path
	return in
}

// Truth is a switch.
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

// IsBoolFlag lets the command line have the name alone for true.
func (in *Input) IsBoolFlag() bool { return in.Kind == "bool" }

// Net is a network of IPv4 addresses: 10.128.0.0/14.
func Net(to *netip.Prefix, name, doc string) *Input {
	return &Input{
		Name: name, Doc: doc, Kind: "cidr",
		set: func(s string) error {
			p, err := netip.ParsePrefix(s)
			switch {
			case err != nil:
				return fmt.Errorf("%q is no network: want one such as 10.128.0.0/14", s)
			case !p.Addr().Is4():
				return fmt.Errorf("%s: the arithmetic here is that of IPv4", s)
			case p.Masked() != p:
				return &valueError{fmt.Errorf("%s is an address within %s: want the network", s, p.Masked()), p.Masked().String()}
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

// Heard adds the inputs to the answer, as they were taken.
func (r *Result) Heard(inputs []*Input) {
	for _, in := range inputs {
		s := Said{Name: in.Name, Value: in.String(), From: "default"}
		if in.given {
			s.From = cmp.Or(in.from, "asked")
		}
		if s.Value == "" && !in.given || in.Kind == "bool" && s.Value == "false" {
			continue
		}
		r.Inputs = append(r.Inputs, s)
	}
}
