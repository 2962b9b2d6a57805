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

// reader reads the files of a machine, each once and redacted, and converts them to facts.
type reader struct {
	host  *host.Host
	files host.Files
	seen  map[string]content
	lists map[string]listing
}

type content struct {
	text string
	none bool // no bytes, not even a newline
	note
}

type listing struct {
	names []string
	note
}

func newReader(h *host.Host) *reader {
	return &reader{host: h, files: h.Files, seen: map[string]content{}, lists: map[string]listing{}}
}

// noteOf converts an error to a fact's state. EINVAL, EOPNOTSUPP and ENODATA mean that the
// attribute does not apply to this device, such as the speed of a link that is down. The fact
// is then absent.
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

// known reports whether the fact is neither absent nor unknown.
func (n note) known() bool { return !n.absent && n.unknown == "" }

const (
	commandLine = "/proc/cmdline"
	// maxCommandLine is in bytes. It exceeds the limit of all kernels: COMMAND_LINE_SIZE is 2
	// or 4 KiB, and configurable only on s390.
	maxCommandLine = 64 << 10
)

// text returns a file's content without the final newline.
func (r *reader) text(p string) (string, note) {
	if c, ok := r.seen[p]; ok {
		return c.text, c.note
	}
	b, err := r.files.ReadFile(p)
	if p == commandLine && len(b) > maxCommandLine {
		err = fmt.Errorf("command line of %s is longer than the maximum of %s", unit.Size(len(b)).Human(), unit.Size(maxCommandLine).Human())
	}
	c := content{note: noteOf(p, err)}
	if err == nil {
		c.text = strings.TrimRight(string(host.Redact(p, b)), "\n\x00")
		c.none = len(b) == 0
	}
	r.seen[p] = c
	return c.text, c.note
}

// nonEmpty is like text for a kernel file that always has at least a newline. A file of zero
// bytes is truncated, so its fact is unknown.
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

// parsed reads and parses a file. The fact is unknown if parsing fails.
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

// notAError is the error for a text that is not a value of the named type, for example "yes or
// no".
type notAError string

func (what notAError) Error() string { return "is not " + string(what) }

var errEmpty = errors.New("empty")

// errNoValue is returned by parsers if the kernel's text means "none".
var errNoValue = errors.New("none")

// str reads a line that is never empty.
func (r *reader) str(p string) Fact[string] {
	return parsed(r, p, func(s string) (string, error) {
		if s = strings.TrimSpace(s); s == "" {
			return "", errEmpty
		}
		return s, nil
	})
}

// optional reads a line of a kernel file; an empty line means absent.
func (r *reader) optional(p string) Fact[string] {
	text, n := r.nonEmpty(p)
	if text = strings.TrimSpace(text); n.known() && text == "" {
		return Absent[string](p)
	}
	return withNote(n, text)
}

// mayBeEmpty reads a line of any file; an empty line means absent.
func (r *reader) mayBeEmpty(p string) Fact[string] {
	text, n := r.text(p)
	if text = strings.TrimSpace(text); n.known() && text == "" {
		return Absent[string](p)
	}
	return withNote(n, text)
}

// line reads a line that may be empty.
func (r *reader) line(p string) Fact[string] {
	text, n := r.nonEmpty(p)
	return withNote(n, strings.TrimSpace(text))
}

// cpus reads a CPU list. If mayBeNone is true, the list may be empty.
func (r *reader) cpus(p string, mayBeNone bool) Fact[string] {
	f := r.line(p)
	switch s, ok := f.Get(); {
	case !ok:
		return f
	case s == "" && !mayBeNone:
		return Unknown[string](p, p+" is empty")
	case s == "(null)" && mayBeNone: // nohz_full without the option, before Linux 5.20
		return Known("", p)
	case s != "":
		if _, err := unit.ParseCPUList(s); err != nil {
			return Unknown[string](p, fmt.Sprintf("%s: %.60q %v", p, s, notAError("a list of CPUs")))
		}
	}
	return f
}

// decimal parses a decimal number, which must be >= least, and multiplies it by factor.
func decimal(s string, least, factor int64) (int64, error) {
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	if err != nil || n < least || n > math.MaxInt64/factor {
		return 0, notAError("a number in the valid range")
	}
	return n * factor, nil
}

// int reads a non-negative decimal number.
func (r *reader) int(p string) Fact[int64] { return r.scaled(p, 1) }

// scaled reads a non-negative decimal number and multiplies it by factor.
func (r *reader) scaled(p string, factor int64) Fact[int64] {
	return parsed(r, p, func(s string) (int64, error) { return decimal(s, 0, factor) })
}

// zeroAbsent reads a number for which 0 means absent.
func (r *reader) zeroAbsent(p string, factor int64) Fact[int64] {
	f := r.scaled(p, factor)
	if Is(f, 0) {
		return Absent[int64](p)
	}
	return f
}

// minusOneAbsent reads a number and multiplies it by factor. -1 means absent.
func (r *reader) minusOneAbsent(p string, factor int64) Fact[int64] {
	return parsed(r, p, func(s string) (int64, error) {
		if strings.TrimSpace(s) == "-1" {
			return 0, errNoValue
		}
		return decimal(s, 0, factor)
	})
}

// flag reads a boolean in the kernel's spellings.
func (r *reader) flag(p string) Fact[bool] {
	return parsed(r, p, func(s string) (bool, error) {
		switch strings.TrimSpace(s) {
		case "1", "Y", "y", "on", "enabled":
			return true, nil
		case "0", "N", "n", "off", "disabled":
			return false, nil
		}
		return false, notAError("a yes or no, such as 1 or 0")
	})
}

// chosen returns the bracketed word of a text such as "[always] madvise never". Some files
// have only one word, without brackets ("none").
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
		return "", errors.New("no choice is in brackets")
	})
}

// words reads one or more words and removes brackets.
func (r *reader) words(p string) Fact[[]string] {
	f := r.anyWords(p)
	if words, ok := f.Get(); ok && len(words) == 0 {
		return Unknown[[]string](p, p+" is empty")
	}
	return f
}

// anyWords reads zero or more words.
func (r *reader) anyWords(p string) Fact[[]string] {
	return parsed(r, p, func(s string) ([]string, error) {
		words := strings.Fields(s)
		for i, w := range words {
			words[i] = strings.Trim(w, "[]")
		}
		return append([]string{}, words...), nil
	})
}

// link returns the last element of a link's target: the driver's name for device/driver.
func (r *reader) link(p string) Fact[string] {
	to, err := r.files.Readlink(p)
	if n := noteOf(p, err); !n.known() {
		return Fact[string]{note: n}
	}
	return Known(path.Base(to), p)
}

// exists reports whether a path exists.
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

// firstKnown returns the first fact with a value, else the first unknown fact, else the last
// fact.
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

// convert converts a fact's value and preserves its state.
func convert[A, B any](f Fact[A], to func(A) B) Fact[B] {
	if v, ok := f.Get(); ok {
		return Known(to(v), f.source)
	}
	return Fact[B]{note: f.note}
}

// withNote returns a fact with value v and the given state and source.
func withNote[T any](n note, v T) Fact[T] {
	if !n.known() {
		return Fact[T]{note: n}
	}
	return Known(v, n.source)
}

// cpuCount returns the number of CPUs in a list.
func cpuCount(list string) int64 {
	set, err := unit.ParseCPUList(list)
	if err != nil {
		return 0
	}
	return int64(set.Len())
}

// numbered returns the names that are prefix and a number, sorted by number: cpu0, cpu1,
// cpu10, but not cpufreq.
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

// keyed parses lines of the form "key: value" or "KEY=value".
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
