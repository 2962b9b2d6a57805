package logformat

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// HeadSize is how much of the beginning of a log is used to detect its format, in bytes.
const HeadSize = 64 << 10

// minShare is the minimum share of the first lines that a format must match.
const minShare = 0.5

// AmbiguousError is returned for a log that matches several formats with different meanings or
// units of a value.
type AmbiguousError struct {
	What    string   // the value, and its possible meanings
	Choices []Choice // the formats
}

// Choice is a possible format of a log.
type Choice struct {
	Text string // in the syntax of --format
	What string // its interpretation of the ambiguous values
}

func (a *AmbiguousError) Error() string {
	var texts []string
	for _, c := range a.Choices {
		texts = append(texts, "'"+c.Text+"'")
	}
	return a.What + "; use one of these formats: " + strings.Join(texts, ", ")
}

// SameRequests reports whether the formats differ only in values after the request, and these
// do not affect the request's time.
func (a *AmbiguousError) SameRequests() bool {
	for _, c := range a.Choices {
		f, err := Parse(c.Text)
		if err != nil || f.TimeIsEnd || !strings.HasPrefix(c.Text, "apache:"+apacheNames[1].format) && !strings.HasPrefix(c.Text, "apache:"+ApacheCommon) {
			return false
		}
	}
	return true
}

// Detect detects the format of a log from its beginning. units maps members of JSON lines that
// are durations to their units, in nanoseconds.
func Detect(head []byte, units map[string]int64) (*Format, error) {
	lines := lines(head)
	if len(lines) == 0 {
		return nil, fmt.Errorf("the log is empty")
	}
	var best []fit
	for w := -1; w < len(wraps); w++ {
		bare, ok := unwrapped(lines, w)
		if !ok {
			continue
		}
		for _, keyed := range []*Format{detectJSON(bare, minShare, 0, units), detectLogger(bare, units), detectPairs(bare, units)} {
			if keyed != nil {
				return keyed.wrappedBy(w), nil
			}
		}
		for _, found := range fits(bare) {
			if found.wrap = w; len(best) == 0 || found.better(best[0]) {
				best = best[:0]
			}
			if len(best) == 0 || !best[0].better(found) {
				best = append(best, found)
			}
		}
	}
	if len(best) == 0 || float64(best[0].read) < minShare*float64(len(lines)) {
		if f := detectAfterBanner(head, minShare, units); f != nil {
			return f, nil
		}
		if len(best) == 0 || float64(best[0].read) < minShare*float64(len(lines)-best[0].bannerLines(lines)) {
			if f := detectAfterBanner(head, minJSONShare, units); f != nil && len(best) == 0 {
				return f, nil
			}
			return nil, unknownError(lines, best)
		}
	}
	if err := conflict(best); err != nil {
		return nil, err
	}
	return best[0].chosen(len(lines)), nil
}

// unwrapped removes wrap w from lines; -1 means no wrap. ok is false if most lines do not have
// the wrap.
func unwrapped(lines [][]byte, w int) (bare [][]byte, ok bool) {
	if w < 0 {
		return lines, true
	}
	var u Unwrapper
	n := 0
	for _, line := range lines {
		out, what := u.line(&wraps[w], line)
		if what != bareLine {
			n++
		}
		if what != partLine {
			bare = append(bare, out)
		}
	}
	return bare, len(bare) > 0 && float64(n) >= minShare*float64(len(lines))
}

// wrappedBy sets the wrap of the format's lines to index w, -1 for none, and returns the format.
func (f *Format) wrappedBy(w int) *Format {
	if w >= 0 {
		f.wrap = &wraps[w]
		f.Why += "; after removing " + wraps[w].name
	}
	return f
}

// UnknownError is returned for a log that matches no format.
type UnknownError struct {
	What string // the nearest format, and the beginning of the log
	// Text is a format that would match, in the syntax of --format, with placeholder names for
	// unknown values. It is empty if no format is similar.
	Text string
}

func (u *UnknownError) Error() string { return u.What }

// ErrNotText is returned for a file with binary data.
var ErrNotText = errors.New("not a text file")

// notText returns an error if a log that matches no format has a control character that logs do not
// have. Zeros at the start of a line are left out: a log that was truncated begins with them.
func notText(lines [][]byte) error {
	for i, line := range lines {
		for _, c := range bytes.TrimLeft(line, "\x00") {
			if c < ' ' && !strings.ContainsRune("\t\r\v\f\x1b", rune(c)) {
				return fmt.Errorf("%w: byte 0x%02x in line %d", ErrNotText, c, i+1)
			}
		}
	}
	return nil
}

// unknownError returns the UnknownError of a log, or ErrNotText.
func unknownError(lines [][]byte, nearest []fit) error {
	if err := notText(lines); err != nil && len(nearest) == 0 {
		return err
	}
	what, text := "no known format matches any", ""
	if len(nearest) > 0 {
		what = fmt.Sprintf("the closest format is %s, which matches %d", nearest[0].name, nearest[0].read)
	} else if c, complete := nginxTail(lines[0]); c.text != "" {
		what, text = "the closest format is the combined log, but unknown text follows its fields, so it matches none", c.text
		if complete { // these names were tried; the lines contradict them
			text = strings.NewReplacer("$request_time", "$value_1", "$upstream_response_time", "$value_2").Replace(text)
		}
	}
	if text == "" {
		text = proposal(string(lines[0]))
	}
	what += fmt.Sprintf(" of the first %d lines", len(lines))
	if len(lines) == 1 {
		what = strings.NewReplacer("any of the first 1 lines", "the only line", "the first 1 lines", "1 line").Replace(what)
	}
	return &UnknownError{fmt.Sprintf("unknown log format: %s; the log begins with %q", what, truncate(lines[0], 200)), text}
}

// UnitName returns the name of a unit, given in nanoseconds.
func UnitName(unit int64) string {
	switch unit {
	case 0:
		return "the unit that each value contains"
	case 1:
		return "nanoseconds"
	case 1e3:
		return "microseconds"
	case 1e6:
		return "milliseconds"
	}
	return "seconds"
}

func truncate(text []byte, n int) string { return string(text[:min(len(text), n)]) }

// maxSampleLines is the number of lines used for detection.
const maxSampleLines = 200

func lines(head []byte) [][]byte {
	var out [][]byte
	for len(head) > 0 && len(out) < maxSampleLines {
		line, rest, whole := bytes.Cut(head, []byte("\n"))
		head = rest
		if !whole && len(out) > 0 {
			break // a truncated last line
		}
		if line = bytes.TrimSuffix(line, []byte("\r")); len(line) > 0 {
			out = append(out, line)
		}
	}
	return out
}

// plausible reports whether every field is valid, including time and duration. Scan does not
// check these two.
func (f *Format) plausible(line []byte, spans []Span) bool {
	for i := range f.Fields {
		if !f.Fields[i].Fits(spans[i].Of(line)) {
			return false
		}
	}
	return true
}

// Names returns the words with which a --format can begin: the names of the predefined formats, and
// the servers whose syntax it may have, with a colon.
func Names() []string {
	names := slices.Sorted(maps.Keys(Named))
	for _, language := range slices.Sorted(maps.Keys(Languages)) {
		names = append(names, language+":")
	}
	return names
}

// Languages maps products to functions that compile formats in the syntax of the product's
// configuration.
var Languages = map[string]func(text string) (*Format, error){"apache": Apache, "nginx": Nginx, "haproxy": HAProxy, "envoy": Envoy, "logback": Logback, "puppet-log": PuppetLog}

// Reads returns the number of lines in head that the format matches, and the number of all
// lines. It selects the wrap that matches the most lines.
func (f *Format) Reads(head []byte) (n, all int) {
	lines := lines(head)
	before := f.wrap
	found, most := before, -1
	for w := -1; w < len(wraps); w++ {
		bare, ok := unwrapped(lines, w)
		if !ok {
			continue
		}
		read, rows := f.reads(bare)
		clients := 0 // prefer wraps with addresses as clients: wrongly split prefixes give names
		for _, r := range rows {
			if isAddress(r.text(FieldClient)) {
				clients++
			}
		}
		if read > n || read == n && clients > most {
			n, most = read, clients
			if found = before; w >= 0 {
				found = &wraps[w]
			}
		}
	}
	f.wrap = found
	return n, len(lines)
}

// Parse parses a format specified by the user: a name in Named, or LANGUAGE:FORMAT in the
// syntax of the server's configuration.
func Parse(text string) (*Format, error) {
	if make, ok := Named[text]; ok {
		f, err := make()
		if err == nil {
			f.Name, f.Why = text, "as given"
		}
		return f, err
	}
	language, rest, _ := strings.Cut(text, ":")
	compile, ok := Languages[language]
	if !ok || rest == "" {
		return nil, fmt.Errorf("%q is not a format; use apache:LOGFORMAT, nginx:LOG_FORMAT, haproxy:LOG-FORMAT, envoy:TEXT_FORMAT, logback:PATTERN, puppet-log:PATTERN, or one of %s", text, strings.Join(slices.Sorted(maps.Keys(Named)), ", "))
	}
	if language == "apache" {
		rest = strings.ReplaceAll(rest, `\"`, `"`) // as escaped in httpd's configuration
	}
	f, err := compile(rest)
	if err == nil {
		f.Why = "as given"
	}
	return f, err
}
