package running

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/prove"
	"fettle.dev/fettle/internal/stats"
)

// format is how a server writes what a request took.
type format struct {
	name   string
	number *regexp.Regexp // its first group
	scale  float64        // to seconds
}

// formats are those whose unit does not depend on the server's configuration.
var formats = []format{
	// Foreman and other Rails applications: config/initializers/lograge aside, Rails'
	// own line.
	{"Foreman's production.log", regexp.MustCompile(`Completed \d{3} .*? in (\d+(?:\.\d+)?)ms`), 1e-3},
	// HAProxy's HTTP log: TR/Tw/Tc/Tr/Ta, the last from the first byte to the last
	// (configuration manual, 8.2.3); a + says that it was still going on.
	{"HAProxy's HTTP log", regexp.MustCompile(` -?\d+/-?\d+/-?\d+/-?\d+/\+?(\d+) \d{3} `), 1e-3},
	// Puppet Server's request-logging.xml: the combined format and %D, which in
	// logback-access is in milliseconds.
	{"Puppet Server's access log", regexp.MustCompile(`"(?:GET|PUT|POST|HEAD|DELETE) /puppet[^"]*" \d{3} (?:\d+|-) "[^"]*" "[^"]*" (\d+)`), 1e-3},
}

// log is a log that grows while work is done.
type log struct {
	host  *host.Host
	path  string
	named []*statistic
	// recent is how long ago its last line may have come; 0: it does not matter.
	recent time.Duration
	format

	file  *os.File
	rest  []byte    // a line that is not whole yet
	found []float64 // in this window
	over  bool      // there were more
}

// statistic is a metric of the durations in a log.
type statistic struct {
	name string // of the metric
	of   func([]float64, time.Duration) float64
}

func (s *Set) ofLog(text, file, what string) (prove.Metric, error) {
	m := prove.Metric{Name: text, Unit: "s"}
	stat := &statistic{name: text}
	switch p, err := strconv.ParseFloat(strings.TrimPrefix(what, "p"), 64); {
	case what == "mean":
		stat.of = func(x []float64, _ time.Duration) float64 { return stats.Mean(x) }
	case what == "median":
		stat.of = func(x []float64, _ time.Duration) float64 { return stats.Median(x) }
	case what == "max":
		stat.of = func(x []float64, _ time.Duration) float64 { return stats.Quantile(x, 1) }
	case what == Rate:
		m.Unit, m.More = "1/s", true
		stat.of = func(x []float64, lasted time.Duration) float64 { return float64(len(x)) / lasted.Seconds() }
	case strings.HasPrefix(what, "p") && err == nil && p > 0 && p < 100:
		stat.of = func(x []float64, _ time.Duration) float64 { return stats.Quantile(x, p/100) }
	default:
		return m, fmt.Errorf("%q: want mean, median, pNN (as p99 or p99.9), max or rate after logs:FILE:", text)
	}
	if s.Pattern != nil && what != Rate {
		m.Unit = s.Unit
	}
	l := s.logs[file]
	if l == nil {
		l = &log{host: s.Host, path: file, recent: s.Recent}
		if s.Pattern != nil {
			l.format = format{"--pattern", s.Pattern, 1}
		}
		if s.logs == nil {
			s.logs = map[string]*log{}
		}
		s.logs[file] = l
		s.sources = append(s.sources, l)
	}
	l.named = append(l.named, stat)
	return m, nil
}

// looked is how much of the end of a log tells its format, in bytes.
const looked = 256 << 10

// errEmpty is that a log has nothing in it yet that tells what it is: it was just
// rotated, or is new.
var errEmpty = errors.New("nothing is in it yet")

// ErrIdle is that nobody writes to a log any more.
var ErrIdle = errors.New("nothing is written to it")

// Check looks whether the log is one of requests, and is written to. The one of before a
// rotation tells the format as well.
func (l *log) Check(context.Context) error {
	known := formats
	if l.number != nil {
		known = []format{l.format}
	}
	text, _, err := l.host.Tail(l.path, looked)
	before, packed := l.rotated()
	switch {
	case errors.Is(err, os.ErrNotExist) && (before != "" || packed):
		// Between the two steps of a rotation.
	case err != nil:
		return err
	case l.recognise(known, text):
		return l.idle()
	}
	if before != "" && len(text) < looked/2 {
		if older, _, err := l.host.Tail(before, looked); err == nil && l.recognise(known, older) {
			return nil
		}
	}
	switch {
	case bytes.IndexByte(text, '\n') < 0, packed && before == "" && len(text) < looked/2:
		return fmt.Errorf("%s: %w", l.path, errEmpty)
	case l.number == nil:
		return fmt.Errorf("%s: the end of this log is none of Foreman's, HAProxy's or Puppet Server's: --pattern REGEXP says which number of a line is the duration (its first group)", l.path)
	}
	return fmt.Errorf("%s: no line of its last %d KiB is like %s", l.path, looked>>10, strings.TrimPrefix(l.number.String(), "(?m)"))
}

// recognise finds which of the formats most lines have, and says whether any has one.
func (l *log) recognise(known []format, text []byte) bool {
	most := 0
	for _, f := range known {
		n := 0
		for line := range bytes.Lines(text) {
			if f.number.Match(bytes.TrimRight(line, "\r\n")) {
				n++
			}
		}
		if n > most {
			most, l.format = n, f
		}
	}
	return most > 0
}

// numbered is what follows the name of a log in that of an older one.
var numbered = regexp.MustCompile(`^[.-]\d`)

// rotated is the log of before the last rotation, where there is one that can be read, and
// whether there are others that are packed. logrotate names them path.1 or path-20260131.
func (l *log) rotated() (plain string, packed bool) {
	all, err := l.host.Files.ReadDir(path.Dir(l.path))
	if err != nil {
		return "", false
	}
	for _, e := range all {
		name := path.Join(path.Dir(l.path), e.Name())
		more, is := strings.CutPrefix(name, path.Clean(l.path))
		if !is || !numbered.MatchString(more) {
			continue
		}
		switch path.Ext(name) {
		case ".gz", ".xz", ".bz2", ".zst":
			packed = true
		default:
			if plain == "" || more[0] == '-' { // the last date, or .1
				plain = name
			}
		}
	}
	return plain, packed
}

// idle is an error where the log was not written to for long.
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

// Begin goes to the end of the log.
func (l *log) Begin() error {
	if l.file != nil {
		_ = l.file.Close()
	}
	l.found, l.rest, l.over = nil, nil, false
	var err error
	l.file, err = l.host.OpenLog(l.path)
	if errors.Is(err, os.ErrNotExist) {
		l.file = nil // between the two steps of a rotation: all of the next one counts
		return nil
	}
	if err != nil {
		return err
	}
	_, err = l.file.Seek(0, io.SeekEnd)
	return err
}

// Read takes the lines that have come meanwhile.
func (l *log) Read(_ context.Context, lasted time.Duration) (m prove.Measurement, err error) {
	if err := l.follow(); err != nil {
		return m, err
	}
	switch {
	case l.over:
		return m, fmt.Errorf("%s: more than %d requests in one window: a shorter --window tells as much", l.path, most)
	case len(l.found) == 0:
		return m, fmt.Errorf("%w: no line of a request came into %s", errNothing, l.path)
	}
	m.Values = prove.Values{}
	for _, s := range l.named {
		m.Values[s.name] = s.of(l.found, lasted)
	}
	if len(l.found) > 1 {
		s := stats.Summarize(l.found)
		m.Within = &s
	}
	return m, nil
}

// follow reads on, also in the file that has taken the log's name: one that was moved
// away is read to its end first.
func (l *log) follow() error {
	next, err := l.host.OpenLog(l.path)
	switch {
	case errors.Is(err, os.ErrNotExist) && l.file == nil:
		return nil
	case errors.Is(err, os.ErrNotExist): // between the two steps of a rotation
		return l.take()
	case err != nil:
		return err
	case l.file == nil:
		l.file = next
		return l.take()
	}
	// What is written to a file after it was moved away comes before the other one is
	// there, so this reads it to its end.
	if err := l.take(); err != nil {
		return errors.Join(err, next.Close())
	}
	moved, short, err := l.replaced(next)
	switch {
	case err != nil:
		return errors.Join(err, next.Close())
	case moved:
		_ = l.file.Close()
		l.file, l.rest = next, nil
		return l.take()
	case short: // copied and cut short
		if _, err := l.file.Seek(0, io.SeekStart); err != nil {
			return errors.Join(err, next.Close())
		}
		return errors.Join(l.take(), next.Close())
	}
	return next.Close()
}

// replaced says whether another file has taken the log's name, or the same one has
// become shorter than what was read of it.
func (l *log) replaced(next *os.File) (moved, short bool, err error) {
	here, err := l.file.Stat()
	if err != nil {
		return false, false, err
	}
	there, err := next.Stat()
	if err != nil {
		return false, false, err
	}
	at, err := l.file.Seek(0, io.SeekCurrent)
	return !os.SameFile(here, there), there.Size() < at, err
}

// longestLine is the most of a line that is kept, in bytes.
const longestLine = 64 << 10

// take reads to the end of the file.
func (l *log) take() error {
	in := bufio.NewReaderSize(l.file, 1<<20)
	for {
		text, err := in.ReadSlice('\n')
		if len(l.rest) < longestLine {
			l.rest = append(l.rest, text[:min(len(text), longestLine)]...)
		}
		if bytes.HasSuffix(text, []byte("\n")) {
			l.line()
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// most is how many durations of a window are kept, 8 bytes each.
const most = 10_000_000

// line takes the number of a whole line.
func (l *log) line() {
	m := l.number.FindSubmatch(bytes.TrimRight(l.rest, "\r\n"))
	l.rest = l.rest[:0]
	if m == nil {
		return
	}
	if len(l.found) == most {
		l.over = true
		return
	}
	word := m[0]
	if len(m) > 1 {
		word = m[1]
	}
	v, err := strconv.ParseFloat(string(word), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
		return
	}
	l.found = append(l.found, v*cmp.Or(l.scale, 1))
}
