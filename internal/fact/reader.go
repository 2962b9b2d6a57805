package fact

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"strconv"
	"strings"
	"syscall"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// reader reads each file of a machine once, redacted, and turns what it finds
// into facts.
type reader struct {
	files host.Files
	seen  map[string]content
	lists map[string]listing
}

type content struct {
	text string
	none bool // not a byte, not even the end of a line
	note
}

type listing struct {
	names []string
	note
}

func newReader(h *host.Host) *reader {
	return &reader{files: h.Files, seen: map[string]content{}, lists: map[string]listing{}}
}

// noteOf turns an error into a fact's state. The kernel answers EINVAL,
// EOPNOTSUPP or ENODATA where an attribute exists and this device has no such
// thing (the speed of a link that is down): that is absence too.
func noteOf(p string, err error) note {
	n := note{source: p}
	switch {
	case err == nil:
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR),
		errors.Is(err, syscall.EINVAL), errors.Is(err, syscall.EOPNOTSUPP),
		errors.Is(err, syscall.ENODATA), errors.Is(err, syscall.ENODEV), errors.Is(err, syscall.ESRCH):
		n.absent = true
	default:
		n.unknown = host.Why(p, err)
	}
	return n
}

// known says that the state is neither absent nor unknown.
func (n note) known() bool { return !n.absent && n.unknown == "" }

const (
	commandLine = "/proc/cmdline"
	// maxCommandLine is more than any kernel takes, in bytes: COMMAND_LINE_SIZE is 2 or
	// 4 KiB, and only s390 can be built for more.
	maxCommandLine = 64 << 10
)

// text returns a file's content without the newline at its end.
func (r *reader) text(p string) (string, note) {
	if c, ok := r.seen[p]; ok {
		return c.text, c.note
	}
	b, err := r.files.ReadFile(p)
	if p == commandLine && len(b) > maxCommandLine {
		err = fmt.Errorf("it has %s, and a command line has at most %s", unit.Size(len(b)).Human(), unit.Size(maxCommandLine).Human())
	}
	c := content{note: noteOf(p, err)}
	if err == nil {
		c.text = strings.TrimRight(string(host.Redact(p, b)), "\n\x00")
		c.none = len(b) == 0
	}
	r.seen[p] = c
	return c.text, c.note
}

// nonEmpty is as text, and a file without a byte is unknown: the kernel's have at
// least the end of a line, so that one has been cut off.
func (r *reader) nonEmpty(p string) (string, note) {
	text, n := r.text(p)
	if n.known() && r.seen[p].none {
		n.unknown = p + " is empty"
	}
	return text, n
}

// dir returns the names in a directory.
func (r *reader) dir(p string) ([]string, note) {
	if l, ok := r.lists[p]; ok {
		return l.names, l.note
	}
	list, err := r.files.ReadDir(p)
	l := listing{note: noteOf(p, err)}
	for _, d := range list {
		l.names = append(l.names, d.Name())
	}
	r.lists[p] = l
	return l.names, l.note
}

// parsed reads a file and parses it; what cannot be parsed is unknown.
func parsed[T any](r *reader, p string, parse func(string) (T, error)) Fact[T] {
	text, n := r.text(p)
	if !n.known() {
		return Fact[T]{note: n}
	}
	v, err := parse(text)
	switch {
	case errors.Is(err, errNoValue):
		return Absent[T](p)
	case err != nil && strings.TrimSpace(text) == "":
		return Unknown[T](p, p+" is empty")
	case errors.As(err, new(notAError)):
		return Unknown[T](p, fmt.Sprintf("%s: %.60q %v", p, text, err))
	case err != nil:
		return Unknown[T](p, fmt.Sprintf("%s: cannot read %.60q", p, text))
	}
	return Known(v, p)
}

// notAError is a parser's word of what a text is not.
type notAError string

func (what notAError) Error() string { return "is no " + string(what) }

var errEmpty = errors.New("empty")

// errNoValue is for a parser that finds the kernel's word for "there is none".
var errNoValue = errors.New("none")

// str reads a line, which is never empty.
func (r *reader) str(p string) Fact[string] {
	return parsed(r, p, func(s string) (string, error) {
		if s = strings.TrimSpace(s); s == "" {
			return "", errEmpty
		}
		return s, nil
	})
}

// optional reads a line of the kernel's that is empty where there is nothing to say,
// which is absence.
func (r *reader) optional(p string) Fact[string] {
	text, n := r.nonEmpty(p)
	if text = strings.TrimSpace(text); n.known() && text == "" {
		return Absent[string](p)
	}
	return withNote(n, text)
}

// mayBeEmpty reads a line of a file that somebody may have left empty.
func (r *reader) mayBeEmpty(p string) Fact[string] {
	text, n := r.text(p)
	if text = strings.TrimSpace(text); n.known() && text == "" {
		return Absent[string](p)
	}
	return withNote(n, text)
}

// line reads a line that may well be empty.
func (r *reader) line(p string) Fact[string] {
	text, n := r.nonEmpty(p)
	return withNote(n, strings.TrimSpace(text))
}

// cpus reads a list of CPUs, which may be empty only where some are not always there.
func (r *reader) cpus(p string, mayBeNone bool) Fact[string] {
	f := r.line(p)
	switch s, ok := f.Get(); {
	case !ok:
		return f
	case s == "" && !mayBeNone:
		return Unknown[string](p, p+" is empty")
	case s == "(null)" && mayBeNone: // nohz_full of kernels before 5.20 without the option
		return Known("", p)
	case s != "":
		if _, err := unit.ParseCPUList(s); err != nil {
			return Unknown[string](p, fmt.Sprintf("%s: %.60q %v", p, s, notAError("list of CPUs")))
		}
	}
	return f
}

// decimal reads digits; what is below least, or above the range of values
// when it is in units of the given size, is none.
func decimal(s string, least, factor int64) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < least || n > math.MaxInt64/factor {
		return 0, notAError("number that it can have")
	}
	return n * factor, nil
}

// int reads a decimal number that is not negative.
func (r *reader) int(p string) Fact[int64] { return r.scaled(p, 1) }

// scaled reads a decimal number, not negative, in units of the given size.
func (r *reader) scaled(p string, factor int64) Fact[int64] {
	return parsed(r, p, func(s string) (int64, error) { return decimal(s, 0, factor) })
}

// zeroAbsent reads a number whose zero says that there is none.
func (r *reader) zeroAbsent(p string, factor int64) Fact[int64] {
	f := r.scaled(p, factor)
	if Is(f, 0) {
		return Absent[int64](p)
	}
	return f
}

// minusOneAbsent reads a number whose minus one says that there is none.
func (r *reader) minusOneAbsent(p string, factor int64) Fact[int64] {
	return parsed(r, p, func(s string) (int64, error) {
		if strings.TrimSpace(s) == "-1" {
			return 0, errNoValue
		}
		return decimal(s, 0, factor)
	})
}

// flag reads a yes or no in the kernel's spellings.
func (r *reader) flag(p string) Fact[bool] {
	return parsed(r, p, func(s string) (bool, error) {
		switch strings.TrimSpace(s) {
		case "1", "Y", "y", "on", "enabled":
			return true, nil
		case "0", "N", "n", "off", "disabled":
			return false, nil
		}
		return false, notAError("yes or no")
	})
}

// chosen reads the word in brackets of "[always] madvise never". Some files
// have one word only, without brackets ("none").
func (r *reader) chosen(p string) Fact[string] {
	return parsed(r, p, func(s string) (string, error) {
		words := strings.Fields(s)
		for _, w := range words {
			if strings.HasPrefix(w, "[") && strings.HasSuffix(w, "]") {
				return w[1 : len(w)-1], nil
			}
		}
		if len(words) == 1 {
			return words[0], nil
		}
		return "", errors.New("nothing is chosen")
	})
}

// words reads a line of words, at least one, brackets removed.
func (r *reader) words(p string) Fact[[]string] {
	f := r.anyWords(p)
	if words, ok := f.Get(); ok && len(words) == 0 {
		return Unknown[[]string](p, p+" is empty")
	}
	return f
}

// anyWords reads a line of words that may have none.
func (r *reader) anyWords(p string) Fact[[]string] {
	return parsed(r, p, func(s string) ([]string, error) {
		words := strings.Fields(s)
		for i, w := range words {
			words[i] = strings.Trim(w, "[]")
		}
		return append([]string{}, words...), nil
	})
}

// link reads where a link points and returns the last element: the driver's
// name of device/driver.
func (r *reader) link(p string) Fact[string] {
	to, err := r.files.Readlink(p)
	if n := noteOf(p, err); !n.known() {
		return Fact[string]{note: n}
	}
	return Known(path.Base(to), p)
}

// exists says whether there is such a path.
func (r *reader) exists(p string) Fact[bool] {
	_, err := r.files.Lstat(p)
	n := noteOf(p, err)
	switch {
	case n.unknown != "":
		return Fact[bool]{note: n}
	case n.absent:
		return Known(false, p)
	}
	return Known(true, p)
}

// firstKnown returns the first fact that has a value, else the first that is
// not absent, else the last.
func firstKnown[T any](facts ...Fact[T]) Fact[T] {
	for _, f := range facts {
		if f.known() {
			return f
		}
	}
	for _, f := range facts {
		if f.unknown != "" {
			return f
		}
	}
	return facts[len(facts)-1]
}

// convert makes a fact from another's value, in the same state.
func convert[A, B any](f Fact[A], to func(A) B) Fact[B] {
	if v, ok := f.Get(); ok {
		return Known(to(v), f.source)
	}
	return Fact[B]{note: f.note}
}

// withNote makes a fact with another's state and source.
func withNote[T any](n note, v T) Fact[T] {
	if !n.known() {
		return Fact[T]{note: n}
	}
	return Known(v, n.source)
}

// cpuCount is how many CPUs a list names.
func cpuCount(list string) int64 {
	set, err := unit.ParseCPUList(list)
	if err != nil {
		return 0
	}
	return int64(set.Len())
}

// numbered returns the names that are a prefix and a number, by number: cpu0,
// cpu1, cpu10 and not cpufreq.
func numbered(names []string, prefix string) []string {
	found := map[string]bool{}
	for _, n := range names {
		rest, ok := strings.CutPrefix(n, prefix)
		if ok && rest != "" && digits(rest) == len(rest) {
			found[n] = true
		}
	}
	return sortedNames(found)
}

// keyed parses lines of "key: value" or "KEY=value".
func keyed(text, separator string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(text) {
		k, v, ok := strings.Cut(line, separator)
		if ok {
			m[strings.TrimSpace(k)] = strings.TrimSpace(v)
		}
	}
	return m
}
