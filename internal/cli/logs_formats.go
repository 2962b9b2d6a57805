package cli

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/requests/source"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// otherLines is of a log that has no line of the format that it is said to have, or of
// any that is known.
type otherLines struct{ error }

func (o otherLines) Unwrap() error { return o.error }

// formats finds each log's format: what was said, or what its first lines are. A file
// that is of another kind and that nobody named is left out: a directory of logs has the
// errors too. One that is compressed so that it cannot be read is named as that.
func (o logsOptions) formats(set *source.Set) ([]*logformat.Format, error) {
	if err := set.LeaveCopies(); err != nil {
		return nil, err
	}
	if len(set.Copies) > 0 && o.say != nil {
		var copies []string
		for _, c := range set.Copies {
			copies = append(copies, c.Path+" ("+c.Why+")")
		}
		o.say("left out, as its lines would count twice: " + strings.Join(copies, ", "))
	}
	var out []*logformat.Format
	var left, unread []string
	var refused error // why the first of them was left
	for i := 0; i < len(set.Logs); {
		l := set.Logs[i]
		f, err := o.formatOf(set, i)
		var packed *source.PackedError
		if l.Listed && o.say != nil && (errors.As(err, new(otherLines)) || errors.Is(err, accesslog.ErrNotNamed) || errors.As(err, &packed)) {
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
		o.say("not read, as they are compressed by xz: " + strings.Join(unread, ", ") + "; xz -dc FILE | fettle logs - reads one")
	}
	if len(left) > 0 {
		o.say("left out, as none of a log of requests: " + strings.Join(left, ", "))
	}
	return out, nil
}

// member refuses --duration where no log has the member that it names.
func (o logsOptions) member(set *source.Set, formats []*logformat.Format) error {
	if o.duration == "" {
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
			how = "leave --duration out: its lines say how long requests took"
			if o.command == "" {
				how += ":\nfettle logs " + internaltext.Quote(path)
			}
		}
		return ui.Hinted(ui.Usage, fmt.Errorf("--duration %s names a member of JSON lines or of key=value: %s is %s", o.duration, path, f.Name), how)
	}
	f := formats[missing]
	how := "--duration names one of its members"
	if len(f.Numbers) > 0 {
		how = "one of its numbers, in the unit that the program writes:"
		for _, n := range f.Numbers {
			how += "\n" + cmp.Or(o.command, "fettle logs "+internaltext.Quote(set.Logs[missing].Path)) + " --duration " + internaltext.Quote(n) + " --unit " + o.unit
		}
	}
	return ui.Hinted(ui.Usage, fmt.Errorf("--duration %s: no line at the beginning of %s has it; they have %s", o.duration, set.Logs[missing].Path, strings.Join(f.Members, ", ")), how)
}

// noDurationHint is for lines that are read as a format without a duration.
const noDurationHint = "if its lines have a duration, --format says where, as the server's configuration has it: --format 'apache:... %D', --format 'nginx:... $request_time'"

// errNoLine is of logs that are empty.
var errNoLine = errors.New("has no line")

// noLine is why no log has a line.
func noLine(set *source.Set) error {
	for i, l := range set.Logs {
		if err := set.Cut(i); err != nil {
			return fmt.Errorf("%s: %w", l.Path, err)
		}
	}
	return ui.Exit(ui.Failed, fmt.Errorf("%s: %w", set.Logs[0].Path, errNoLine))
}

// said looks at the first lines of a log whose format somebody says. A log that was cut
// under its server begins with zeros, and tells nothing.
func said(f *logformat.Format, path string, head []byte) error {
	n, all := f.Reads(head)
	if n == 0 && all > 0 && bytes.IndexByte(head, 0) < 0 {
		first, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\n"))
		return ui.Hinted(ui.Failed, fmt.Errorf("%s: %w", path, otherLines{fmt.Errorf("none of the first %d lines is as --format says; it begins with %.200q", all, first)}),
			"without --format the format is found out from the lines: "+internaltext.CommandLine([]string{"fettle", "logs", path}))
	}
	if n < all {
		f.Why += fmt.Sprintf("; %d of the first %d lines are so", n, all)
	}
	return nil
}

// withFormat is the command that reads a log with a format, as sh takes it.
func (o logsOptions) withFormat(path, text string) string {
	if o.command == "" {
		return internaltext.CommandLine([]string{"fettle", "logs", path, "--format", text})
	}
	return o.command + " " + internaltext.CommandLine([]string{cmp.Or(o.formatFlag, "--format"), text})
}

// uncertain refuses a log that several formats read, and names the commands of which one
// is right.
func (o logsOptions) uncertain(path string, several *logformat.AmbiguousError) error {
	hint := "the server's configuration decides (--config), or one of these:"
	if o.command != "" {
		hint = "the server's configuration decides, or one of these:"
	}
	for _, c := range several.Choices {
		hint += fmt.Sprintf("\n%s  # %s", o.withFormat(path, c.Text), c.What)
	}
	return ui.Hinted(ui.Refused, fmt.Errorf("%s: %s", path, several.What), hint)
}

// formatOf is the format of a log; nil: it has no line, having just begun or being damaged
// there, and its format is that of the others.
func (o logsOptions) formatOf(set *source.Set, i int) (*logformat.Format, error) {
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
	case o.format != "":
		if f, err = logformat.Parse(o.format); err != nil {
			return nil, ui.Exit(ui.Usage, fmt.Errorf("--format: %w", err))
		}
		if err := said(f, l.Path, head); err != nil {
			return nil, err
		}
	case o.configured != nil:
		if f, err = o.configured.format(l.Path, head); err != nil {
			return nil, err
		}
	default:
		jsonUnits := map[string]int64{}
		if o.duration != "" {
			jsonUnits[o.duration] = durationUnits[o.unit]
		}
		f, err = logformat.Detect(head, jsonUnits)
		if several := (*logformat.AmbiguousError)(nil); errors.As(err, &several) {
			if o.noDurations && several.SameRequests() {
				f, err = logformat.Parse(several.Choices[0].Text)
				if err == nil {
					err = said(f, l.Path, head)
				}
				return f, err
			}
			return nil, o.uncertain(l.Path, several)
		}
		if err != nil {
			hint, text := "if its lines are requests, --format says how they are written, as the server's configuration has it; for example:", `nginx:$remote_addr [$time_local] "$request" $status $request_time`
			if u := (*logformat.UnknownError)(nil); errors.As(err, &u) && u.Text != "" {
				hint, text = "--format says how its lines are written, as the server's configuration has it; put in the names of the unknown values:", u.Text
			}
			return nil, ui.Hinted(ui.Failed, fmt.Errorf("%s: %w", l.Path, otherLines{err}), hint+"\n"+o.withFormat(l.Path, text))
		}
	}
	if o.unit != "" && f.UnitUnknown != "" {
		if f, err = logformat.Detect(head, map[string]int64{f.UnitUnknown: durationUnits[o.unit]}); err != nil {
			return nil, err
		}
	}
	if d := f.Field(logformat.FieldDuration); o.unit != "" && (o.duration == "" || f.Keyed()) {
		if d < 0 {
			return nil, ui.Hinted(ui.Usage, fmt.Errorf("--unit %s: %s: %s has no duration", o.unit, l.Path, f.Name), noDurationHint)
		}
		f.Fields[d].Unit = durationUnits[o.unit]
		said := strings.TrimSuffix(f.Guessed, ", seconds") // what --unit says is not guessed
		f.Why, f.Guessed = strings.Replace(f.Why, f.Guessed, said, 1), said
	}
	return f, nil
}

// muchUnread is the share of lines that were not read from which on another format is looked for.
const muchUnread = 0.05

// another says how the lines are read that were not, where they are of another format that is
// known: a log goes on in a format that its server was given meanwhile. Empty: they are of none.
func (o logsOptions) another(r *logs.Result) string {
	if float64(r.Unread.Lines) < muchUnread*float64(r.Unread.Lines+r.Requests+r.Others+r.Left) {
		return ""
	}
	for _, first := range r.Unread.Examples {
		var lines []string
		for _, e := range r.Unread.Examples {
			if e.Path == first.Path {
				lines = append(lines, e.Text)
			}
		}
		f, err := logformat.Detect([]byte(strings.Join(lines, "\n")+"\n"), nil)
		text, name := "", ""
		switch several := (*logformat.AmbiguousError)(nil); {
		case errors.As(err, &several):
			text, name = several.Choices[0].Text, several.Choices[0].What
		case err == nil && f.Text != "":
			text, name = f.Text, f.Name
		case err == nil && f.Name == logformat.JSONLines:
			return fmt.Sprintf("lines of %s that were not read are of %s: grep '{' %s | fettle logs -", first.Path, f.Name, internaltext.Quote(first.Path))
		default:
			continue
		}
		return fmt.Sprintf("lines of %s that were not read are of another format (%s): %s", first.Path, name, o.withFormat(first.Path, text))
	}
	return ""
}
