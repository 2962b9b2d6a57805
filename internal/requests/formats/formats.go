// Package formats determines the format of request logs: the requested format, the format in
// the server's configuration, or one detected from the first lines. The verbs logs, load http
// --replay, prove --live and size use it.
package formats

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Finder holds the options for finding log formats.
type Finder struct {
	Format string  // as in the server's configuration; "" to detect it
	Config *Config // of the servers; nil to detect the format
	// Unit is the unit of the duration; "" keeps the format's unit. Duration is the name of
	// the member with the duration in JSON lines.
	Unit, Duration string
	// NoDurations accepts formats that differ only in the duration.
	NoDurations bool
	// Command is the command line of a verb other than logs, and Flag the name of its format
	// flag. Errors quote both.
	Command, Flag string
	// Say is called with a message for each omitted file of a directory. If it is nil, such
	// files are an error.
	Say func(string)
}

// Units maps the units of a duration to nanoseconds.
var Units = map[string]int64{"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9}

// otherLines is returned if a log's lines do not match the requested format or any known one.
type otherLines struct{ error }

func (o otherLines) Unwrap() error { return o.error }

// Find returns the format of each log of a set. Files of a directory that are not request logs,
// such as error logs, are left out. A file with an unknown compression is reported.
func (o *Finder) Find(set *source.Set) ([]*logformat.Format, error) {
	if err := set.LeaveCopies(); err != nil {
		return nil, err
	}
	if len(set.Copies) > 0 && o.Say != nil {
		var copies []string
		for _, c := range set.Copies {
			copies = append(copies, c.Path+" ("+c.Why+")")
		}
		o.Say("ignored, because its lines would count twice: " + strings.Join(copies, ", "))
	}
	var out []*logformat.Format
	var left, unread []string
	var refused error // error of the first omitted log
	for i := 0; i < len(set.Logs); {
		l := set.Logs[i]
		f, err := o.formatOf(set, i)
		var packed *source.PackedError
		if l.Listed && o.Say != nil && (errors.As(err, new(otherLines)) || errors.Is(err, accesslog.ErrNotNamed) || errors.As(err, &packed)) {
			if refused == nil {
				refused = err
			}
			if packed != nil {
				unread = append(unread, l.Path)
				set.NotRead = append(set.NotRead, source.NotRead{Path: l.Path, Why: "compressed by " + packed.By})
			} else {
				left = append(left, l.Path)
			}
			if err := set.Leave(i); err != nil {
				return nil, err
			}
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, f)
		i++
	}
	known := slices.IndexFunc(out, func(f *logformat.Format) bool { return f != nil })
	switch {
	case known < 0 && refused != nil:
		return nil, refused
	case known < 0:
		return nil, noLine(set)
	}
	for i := range out {
		if out[i] == nil {
			out[i] = out[known]
		}
	}
	if err := o.member(set, out); err != nil {
		return nil, err
	}
	if len(unread) > 0 {
		o.Say("not read, because compressed with xz: " + strings.Join(unread, ", ") + "; use xz -dc FILE | fettle logs -")
	}
	if len(left) > 0 {
		o.Say("ignored, because not request logs: " + strings.Join(left, ", "))
	}
	return out, nil
}

// member returns an error if --duration names a member that no log has.
func (o *Finder) member(set *source.Set, formats []*logformat.Format) error {
	if o.Duration == "" {
		return nil
	}
	missing := -1 // a log with members
	for i, f := range formats {
		switch {
		case f.Keyed() && !f.NoMember:
			return nil
		case f.Keyed() && missing < 0:
			missing = i
		}
	}
	if missing < 0 {
		path, f := set.Logs[0].Path, formats[0]
		how := noDurationHint
		if f.Field(logformat.FieldDuration) >= 0 {
			how = "leave out --duration; the lines contain the duration"
			if o.Command == "" {
				how += ":\nfettle logs " + text.Quote(path)
			}
		}
		return ui.Hinted(ui.Usage, fmt.Errorf("--duration %s works with JSON or key=value lines only: %s is %s", o.Duration, path, f.Name), how)
	}
	f := formats[missing]
	how := "name one of these members with --duration"
	if len(f.Numbers) > 0 {
		how = "choose one of the numbers in its lines, and the unit in which the program writes it:"
		for _, n := range f.Numbers {
			how += "\n" + cmp.Or(o.Command, "fettle logs "+text.Quote(set.Logs[missing].Path)) + " --duration " + text.Quote(n) + " --unit " + o.Unit
		}
	}
	return ui.Hinted(ui.Usage, fmt.Errorf("--duration %s: the first lines of %s do not have this member; they have %s", o.Duration, set.Logs[missing].Path, strings.Join(f.Members, ", ")), how)
}

// noDurationHint is the hint for formats without a duration.
const noDurationHint = "if its lines have a duration, give the server's log format: --format 'apache:... %D', --format 'nginx:... $request_time'"

// ErrNoLine is returned for empty logs.
var ErrNoLine = errors.New("the log contains no line")

// noLine returns the error that explains why the logs have no line.
func noLine(set *source.Set) error {
	for i, l := range set.Logs {
		if err := set.Cut(i); err != nil {
			return fmt.Errorf("%s: %w", l.Path, err)
		}
	}
	return ui.Exit(ui.Failed, fmt.Errorf("%s: %w", set.Logs[0].Path, ErrNoLine))
}

// check returns an error if the first lines of a log do not match the requested format. A log
// that was truncated while its server wrote begins with zeros, which match any format.
func (o *Finder) check(f *logformat.Format, path string, head []byte) error {
	n, all := f.Reads(head)
	if n == 0 && all > 0 && bytes.IndexByte(head, 0) < 0 {
		first, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
		return &ui.Error{Code: ui.Failed, Err: fmt.Errorf("%s: %w", path, otherLines{text.Errorf("the first %d lines do not match %s; the log begins with %.200q", all, o.flag(), first)}),
			Remedy: &ui.Remedy{Drop: []string{o.flag()}, To: "to detect the format"}}
	}
	if n < all {
		f.Why += text.Sprintf("; matches %d of the first %d lines", n, all)
	}
	return nil
}

// invalid adds the suggested call to an error about the requested format: with a similar name, or
// without the flag.
func (o *Finder) invalid(err error) error {
	name, _, hasText := strings.Cut(o.Format, ":")
	if near := text.Nearest(name, slices.Sorted(maps.Keys(logformat.Named))); near != "" && !hasText {
		return ui.Instead(ui.Usage, fmt.Errorf("%s: %w", o.flag(), err), "", o.flag()+"="+near)
	}
	return &ui.Error{Code: ui.Usage, Err: fmt.Errorf("%s: %w", o.flag(), err), Remedy: &ui.Remedy{Drop: []string{o.flag()}, To: "to detect the format"}}
}

// flag returns the name of the format's flag.
func (o *Finder) flag() string { return cmp.Or(o.Flag, "--format") }

// withFormat returns the shell command that reads a log with a format.
func (o *Finder) withFormat(path, format string) string {
	if o.Command == "" {
		return text.CommandLine([]string{"fettle", "logs", path, "--format", format})
	}
	return o.Command + " " + text.CommandLine([]string{o.flag(), format})
}

// uncertain returns the error for a log that several formats match, with a command for each.
func (o *Finder) uncertain(path string, several *logformat.AmbiguousError) error {
	hint := "use the server's configuration (--config), or one of these:"
	if o.Command != "" {
		hint = "use the server's configuration, or one of these:"
	}
	for _, c := range several.Choices {
		hint += fmt.Sprintf("\n%s  # %s", o.withFormat(path, c.Text), c.What)
	}
	return ui.Hinted(ui.Refused, fmt.Errorf("%s: %s", path, several.What), hint)
}

// formatOf returns the format of a log, or nil for a log without lines (new or damaged). The
// format of the other logs then applies.
func (o *Finder) formatOf(set *source.Set, i int) (*logformat.Format, error) {
	l := set.Logs[i]
	head, err := set.Head(i, logformat.HeadSize)
	if err != nil {
		return nil, err
	}
	if len(bytes.TrimSpace(head)) == 0 {
		return nil, nil
	}
	var f *logformat.Format
	switch {
	case o.Format != "":
		if f, err = logformat.Parse(o.Format); err != nil {
			return nil, o.invalid(err)
		}
		if err := o.check(f, l.Path, head); err != nil {
			return nil, err
		}
	case o.Config != nil:
		if f, err = o.Config.Format(l.Path, head); err != nil {
			return nil, err
		}
	default:
		jsonUnits := map[string]int64{}
		if o.Duration != "" {
			jsonUnits[o.Duration] = Units[o.Unit]
		}
		f, err = logformat.Detect(head, jsonUnits)
		if several := (*logformat.AmbiguousError)(nil); errors.As(err, &several) {
			if o.NoDurations && several.SameRequests() {
				f, err = logformat.Parse(several.Choices[0].Text)
				if err == nil {
					err = o.check(f, l.Path, head)
				}
				return f, err
			}
			return nil, o.uncertain(l.Path, several)
		}
		if errors.Is(err, logformat.ErrNotText) {
			return nil, ui.Hinted(ui.Failed, fmt.Errorf("%s: %w", l.Path, err), "name a log as text, or compressed with gzip, zstd or bzip2")
		}
		if err != nil {
			hint, more := "if its lines are requests, name the server's configuration, --config /etc/httpd, or its log format with --format (docs/logs-formats.md), for example:", "\n"+o.withFormat(l.Path, `apache:%h %l %u %t "%r" %>s %b %D`)
			text := `nginx:$remote_addr [$time_local] "$request" $status $request_time`
			if u := (*logformat.UnknownError)(nil); errors.As(err, &u) && u.Text != "" {
				hint, text, more = "give the server's log format with --format (docs/logs-formats.md); replace the placeholders by the names of the unknown values:", u.Text, ""
			}
			return nil, ui.Hinted(ui.Failed, fmt.Errorf("%s: %w", l.Path, otherLines{err}), hint+"\n"+o.withFormat(l.Path, text)+more)
		}
	}
	if o.Unit != "" && f.UnitUnknown != "" {
		if f, err = logformat.Detect(head, map[string]int64{f.UnitUnknown: Units[o.Unit]}); err != nil {
			return nil, err
		}
	}
	if d := f.Field(logformat.FieldDuration); o.Unit != "" && (o.Duration == "" || f.Keyed()) {
		if d < 0 {
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("--unit %s: %s: its format, %s, has no duration", o.Unit, l.Path, f.Name), noDurationHint)
		}
		f.Fields[d].Unit = Units[o.Unit]
		said := strings.TrimSuffix(f.Guessed, ", seconds") // --unit is not a guess
		f.Why, f.Guessed = strings.Replace(f.Why, f.Guessed, said, 1), said
	}
	return f, nil
}

// Another detects the format of the unread lines: a server's log format may change in the middle
// of a log. If it is known, Another records the format and the command that reads these lines.
func (o *Finder) Another(r *logs.Result) {
	if !r.MuchUnread() {
		return
	}
	for _, first := range r.Unread.Examples {
		var lines []string
		for _, e := range r.Unread.Examples {
			if e.Path == first.Path {
				lines = append(lines, e.Text)
			}
		}
		f, err := logformat.Detect([]byte(strings.Join(lines, "\n")+"\n"), nil)
		u := &r.Unread
		switch several := (*logformat.AmbiguousError)(nil); {
		case errors.As(err, &several):
			u.LooksLike, u.Format = several.Choices[0].What, several.Choices[0].Text
		case err == nil && f.Text != "":
			u.LooksLike, u.Format = f.Name, f.Text
		case err == nil && f.Name == logformat.JSONLines:
			if u.LooksLike = f.Name; o.Command == "" { // else the log is not on this machine
				u.ReadWith = fmt.Sprintf("grep '{' %s | fettle logs -", text.Quote(first.Path))
			}
			return
		default:
			continue
		}
		u.ReadWith = o.withFormat(first.Path, u.Format)
		return
	}
}
