package live

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/stats"
	internaltext "fettle.dev/fettle/internal/text"
)

// log is a request log that grows during the experiment.
type log struct {
	host    *host.Host
	path    string
	named   []*statistic
	choices []*choice
	// recent limits the age of its last line; 0: no limit.
	recent time.Duration
	// pattern selects lines and finds their numbers. It is nil if the log has a format.
	pattern *regexp.Regexp
	detect  func(path string, text []byte) (*logformat.Format, error)

	reader    *logs.Reader
	request   logs.Request
	positions []source.Position
}

// looked is the number of bytes at the end of a log from which its format is detected.
const looked = 256 << 10

// errEmpty is returned for a log without lines, new or just rotated. Its format is unknown.
var errEmpty = errors.New("the log is still empty")

// ErrIdle is returned for a log that is no longer written to.
var ErrIdle = errors.New("nothing is written to the log any more")

// Check returns an error unless the log contains requests and is being written. If it was just
// rotated, earlier parts determine the format.
func (l *log) Check(context.Context) error {
	text, _, err := l.host.Tail(l.path, looked)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		return err
	}
	before, dirErr := source.Beside(l.host, l.path)
	before = slices.DeleteFunc(before, func(o source.Log) bool { return !slices.Contains(logformat.NamesBeforeRotation(o.Path), l.path) })
	if missing && (dirErr != nil || len(before) == 0) {
		return err
	} // otherwise in the middle of a rotation
	f, why := l.recognize(text)
	if f != nil {
		if err := l.use(f); err != nil {
			return err
		}
		return l.idle()
	}
	small, unknown := len(text) < looked/2, false
	for _, o := range before {
		if !small {
			break
		}
		text, err := o.First(looked)
		if err != nil {
			unknown = true // unsupported compression
			continue
		}
		if f, _ := l.recognize(text); f != nil {
			return l.use(f)
		}
	}
	switch {
	case bytes.IndexByte(text, '\n') < 0, unknown:
		return fmt.Errorf("%s: %w", l.path, errEmpty)
	case l.pattern != nil:
		return fmt.Errorf("%s: %w", l.path, why)
	}
	return fmt.Errorf("%s: %w; give its format with --log-format, or --pattern REGEXP whose first group matches the duration", l.path, why)
}

// byPattern stands for a log with a pattern.
var byPattern = &logformat.Format{Name: "--pattern"}

// recognize returns the format of a text, or the reason why it has none.
func (l *log) recognize(text []byte) (*logformat.Format, error) {
	if l.pattern != nil {
		for line := range bytes.Lines(text) {
			if l.pattern.Match(bytes.TrimRight(line, "\r\n")) {
				return byPattern, nil
			}
		}
		return nil, internaltext.Errorf("no line in the last %d KiB of the log matches %s", looked>>10, strings.TrimPrefix(l.pattern.String(), "(?m)"))
	}
	f, err := l.detect(l.path, text)
	if err != nil {
		return nil, err
	}
	if n, _ := f.Reads(text); n == 0 {
		return nil, internaltext.Errorf("no line in the last %d KiB of the log matches the format %s", looked>>10, f.Name)
	}
	return f, nil
}

// use selects the format for reading the log. It returns an error if the format lacks a field that
// the metrics need.
func (l *log) use(f *logformat.Format) (err error) {
	if f == byPattern {
		return nil
	}
	for _, c := range l.choices {
		if c.where != "" {
			if c.fulfils, err = logs.ParseWhere(f, c.where, nil); err != nil {
				return fmt.Errorf("%s: %s", l.path, strings.TrimPrefix(err.Error(), "--"))
			}
		}
		if c.field == "" {
			continue
		}
		if c.at = f.Field(c.field); c.at < 0 || f.Fields[c.at].Kind != logformat.Duration {
			return fmt.Errorf("%s: %s is not a duration in the format %s, which has %s", l.path, c.field, f.Name, durations(f))
		}
	}
	for _, s := range l.named {
		if !s.rate && s.at < 0 && f.Field(logformat.FieldDuration) < 0 {
			if f.UnitUnknown != "" {
				return fmt.Errorf("%s: the unit of %q is unknown; use --pattern '\"%s\": *([0-9.]+)' --unit ms (or s, us, ns)", l.path, f.UnitUnknown, f.UnitUnknown)
			}
			return fmt.Errorf("%s: the format %s has no duration of requests; this format has %s", l.path, f.Name, durations(f))
		}
	}
	l.reader = logs.NewReader(f)
	return nil
}

// durations lists the durations of a format.
func durations(f *logformat.Format) string {
	var names []string
	for _, field := range f.Fields {
		if field.Kind == logformat.Duration {
			names = append(names, field.Name)
		}
	}
	if len(names) == 0 {
		return "no duration"
	}
	return strings.Join(names, ", ")
}

// idle returns an error if the log was not written to for too long.
func (l *log) idle() error {
	if l.recent == 0 {
		return nil
	}
	f, err := l.host.OpenLog(l.path)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if age := l.host.Clock.Now().Sub(st.ModTime()); age > l.recent {
		return fmt.Errorf("%s: %w: its last line came %v ago", l.path, ErrIdle, age.Round(time.Second))
	}
	return nil
}

// Begin moves to the end of the log. It reads the lines since the previous window without counting
// them, because requests may have begun in them.
func (l *log) Begin() error {
	found, err := source.Find(l.host, []string{l.path})
	switch {
	case errors.Is(err, fs.ErrNotExist): // in the middle of a rotation: the next file is read from its start
		l.positions = nil
	case err != nil:
		return err
	case len(l.positions) == 0:
		l.positions, err = source.Ends(found)
	default:
		err = l.follow(context.Background())
	}
	for _, c := range l.choices {
		c.requests, c.found, c.over = 0, nil, false
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Read evaluates the lines since Begin.
func (l *log) Read(ctx context.Context, lasted time.Duration) (m prove.Measurement, err error) {
	if err := l.follow(ctx); err != nil {
		return m, err
	}
	m.Values = prove.Values{}
	for _, s := range l.named {
		some := ""
		if s.where != "" {
			some = " where " + s.where
		}
		switch {
		case s.over:
			return m, internaltext.Errorf("%s: more than %d requests in one window; use a shorter --window", l.path, most)
		case s.requests == 0:
			return m, fmt.Errorf("%w: no request%s in %s", errNothing, some, l.path)
		case len(s.found) == 0 && !s.rate:
			return m, fmt.Errorf("%w: no request%s with a duration in %s", errNothing, some, l.path)
		}
		m.Values[s.name] = s.of(s.choice, lasted)
	}
	if first := l.named[0]; len(first.found) > 1 {
		s := stats.Summarize(first.found)
		m.Within = &s
	}
	return m, nil
}

// follow continues reading through a rotation, starting with the rest of the rotated part.
func (l *log) follow(ctx context.Context) error {
	found, err := source.Find(l.host, []string{l.path})
	var next []source.Log
	if err == nil {
		next, _, err = source.Continue(found, l.positions)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // in the middle of a rotation: the next call reads the rest
	}
	if err != nil {
		return err
	}
	set := source.NewSet(next)
	set.WholeLines = true
	err = set.Read(ctx, 1, func(_ int, b *source.Block) {
		for line := range bytes.Lines(b.Data) {
			l.line(bytes.TrimRight(line, "\r\n"))
		}
	})
	if err != nil {
		return err
	}
	l.positions, err = set.Positions()
	return err
}

// most is the maximum number of durations kept per window, 8 bytes each.
const most = 10_000_000

// line evaluates a whole line.
func (l *log) line(text []byte) {
	if l.pattern != nil {
		if v, ok := l.number(text); ok {
			for _, c := range l.choices {
				c.requests++
				c.take(v)
			}
		}
		return
	}
	if l.reader.Read(text, &l.request) != logformat.RequestLine {
		return
	}
	for _, c := range l.choices {
		if c.fulfils != nil && !c.fulfils(&l.request) {
			continue
		}
		c.requests++
		us := l.request.Duration
		if c.at >= 0 {
			var ok bool
			if us, ok = l.reader.Format.Fields[c.at].Duration(l.request.Field(c.at)); !ok {
				continue
			}
		}
		if us >= 0 {
			c.take(float64(us) / 1e6)
		}
	}
}

// number returns the number that the pattern finds in a line.
func (l *log) number(text []byte) (float64, bool) {
	m := l.pattern.FindSubmatch(text)
	if m == nil {
		return 0, false
	}
	word := m[0]
	if len(m) > 1 {
		word = m[1]
	}
	v, err := strconv.ParseFloat(string(word), 64)
	return v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) && v >= 0
}
