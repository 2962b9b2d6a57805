// Package accesslog says of the logs of requests that servers' configurations name which
// format each has, and which of them a file is.
package accesslog

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/product/conf"
)

// Log is a log of requests that a configuration names.
type Log struct {
	// Path is the file; a pattern of path.Match where its name has the time or a variable
	// in it.
	Path    string
	Pattern bool
	// Goes is the syslog daemon or the program that the log goes to; Path is then where
	// that is known to write.
	Goes     string
	Language string // of format.Languages
	// Own says that it is what the server says of itself: some of its lines are of requests,
	// and it is read where it is named.
	Own bool
	// Format is the format, and where it stands; one that the product has built in stands
	// nowhere.
	Format  conf.Quoted
	BuiltIn string // instead of Format
	Name    string // of the format, where it has one
	At      string // FILE:LINE of the directive that names the log
	What    string // the directive: CustomLog
	// Scopes are the servers, virtual hosts and blocks whose requests it has; logs of one
	// scope have the same requests. None: it is not known.
	Scopes []string
	// Some says that a condition decides which of the requests it has.
	Some bool
}

// text is the log's format.
func (l *Log) text() string {
	if l.BuiltIn != "" {
		return l.BuiltIn
	}
	return l.Format.Value()
}

// why says where the format is from.
func (l *Log) why() string {
	switch {
	case l.BuiltIn != "" && l.Name != "":
		return fmt.Sprintf("%s of %s, format %s", l.What, l.At, l.Name)
	case l.BuiltIn != "":
		return fmt.Sprintf("%s of %s, which names no format", l.What, l.At)
	case l.Format.String() == l.At:
		return fmt.Sprintf("%s of %s", l.What, l.At)
	case l.Name != "":
		return fmt.Sprintf("%s of %s, format %s of %s", l.What, l.At, l.Name, l.Format)
	}
	return fmt.Sprintf("%s of %s, format of %s", l.What, l.At, l.Format)
}

// Compile makes the log's format. What of it is not understood is named by its place in
// the configuration.
func (l *Log) Compile() (*logformat.Format, error) {
	f, err := logformat.Languages[l.Language](l.text())
	var refused *logformat.FormatError
	if errors.As(err, &refused) && l.BuiltIn == "" {
		return nil, fmt.Errorf("%s: %s, %s: %s", l.Format.Place(refused.At), refused.What, refused.Excerpt(), refused.Why)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", l.At, err)
	}
	if l.Name != "" {
		f.Name += " " + l.Name
	}
	f.Why = l.why()
	return f, nil
}

// ErrNotNamed is of a file that a configuration does not say anything of.
var ErrNotNamed = errors.New("no directive of the configuration writes it")

// Of finds the log that a file is, by its path in the machine that has the configuration:
// the file that a directive names, or a part of it that was rotated away or compressed.
// Where no directive names its path, one that names a file of the same name is taken, and
// else one whose log goes to a syslog daemon or a program; and for - the only one. why is
// what is said of it beside where the format is from.
func Of(all []Log, file string) (l *Log, why string, err error) {
	var found []*Log
	for _, by := range []struct {
		is  func(l *Log, name string) bool
		why string
	}{
		{func(l *Log, name string) bool { return !l.Pattern && l.Path == name }, ""}, // a name takes precedence over a variable
		{func(l *Log, name string) bool { return l.Pattern && l.matches(name) }, ""},
		{func(l *Log, name string) bool { return path.Base(l.Path) == path.Base(name) && !l.Pattern }, "by its name: the configuration has it as %s"},
		{func(l *Log, _ string) bool { return l.Goes != "" }, "which names no file: it goes to %s"},
		{func(_ *Log, name string) bool { return name == "-" }, "the only format: of %s"},
	} {
		for _, name := range logformat.NamesBeforeRotation(file) {
			for i := range all {
				if (all[i].Path != "" || all[i].Goes != "") && by.is(&all[i], name) {
					found = append(found, &all[i])
				}
			}
			if len(found) > 0 {
				break
			}
		}
		if len(found) == 0 {
			continue
		}
		for _, other := range found[1:] {
			if other.Language != found[0].Language || other.text() != found[0].text() {
				return nil, "", fmt.Errorf("%s: it is written in two formats: %s; %s", file, found[0].why(), other.why())
			}
		}
		if by.why != "" {
			to := found[0].Path
			if found[0].Goes != "" {
				to = found[0].Goes
			}
			why = fmt.Sprintf(by.why, to)
		}
		return found[0], why, nil
	}
	return nil, "", fmt.Errorf("%s: %w; it names %s", file, ErrNotNamed, Names(all))
}

// Names are the logs, for a person.
func Names(all []Log) string {
	var names []string
	for i := range all {
		name := all[i].Path
		if name == "" {
			name = all[i].Goes
		}
		if name += " (" + all[i].At + ")"; !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return "none"
	}
	const most = 20
	if n := len(names); n > most {
		names = append(names[:most:most], fmt.Sprintf("and %d more", n-most))
	}
	return strings.Join(names, ", ")
}

// matches reports whether a name may be one of a pattern.
func (l *Log) matches(name string) bool {
	ok, err := path.Match(l.Path, name)
	return ok && err == nil
}
