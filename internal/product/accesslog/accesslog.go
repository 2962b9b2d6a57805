// Package accesslog finds the log in a server's configuration that writes a given file, and returns
// its format.
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

// Log is a request log that a server's configuration writes.
type Log struct {
	// Path is the file, or a pattern of path.Match if its name contains the time or a variable.
	Path    string
	Pattern bool
	// Goes is the syslog daemon or the program that receives the log. Path is then the file that
	// the receiver is known to write.
	Goes     string
	Language string // of format.Languages
	// Own marks the server's own log, which is read only if the user names it: only some of
	// its lines are requests.
	Own bool
	// Format is the format with its position in the file; BuiltIn replaces it for the product's own
	// formats.
	Format  conf.Quoted
	BuiltIn string // instead of Format
	Name    string // of the format, if it has one
	At      string // FILE:LINE of the directive that sets the log
	What    string // the directive, such as CustomLog
	// Scopes are the servers, virtual hosts and blocks whose requests the log records. Logs with a
	// common scope record the same requests. Empty means unknown.
	Scopes []string
	// Some is true if the log records only requests that match a condition.
	Some bool
}

// text returns the log's format as the server reads it.
func (l *Log) text() string {
	if l.BuiltIn != "" {
		return l.BuiltIn
	}
	return l.Format.Value()
}

// why describes the origin of the format for messages.
func (l *Log) why() string {
	switch {
	case l.BuiltIn != "" && l.Name != "":
		return fmt.Sprintf("%s of %s, format %s", l.What, l.At, l.Name)
	case l.BuiltIn != "":
		return fmt.Sprintf("%s of %s, without a format name", l.What, l.At)
	case l.Format.String() == l.At:
		return fmt.Sprintf("%s of %s", l.What, l.At)
	case l.Name != "":
		return fmt.Sprintf("%s of %s, format %s of %s", l.What, l.At, l.Name, l.Format)
	}
	return fmt.Sprintf("%s of %s, format of %s", l.What, l.At, l.Format)
}

// Compile compiles the log's format. Errors name the position in the configuration.
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

// ErrNotNamed is returned if no directive of a configuration writes a file.
var ErrNotNamed = errors.New("no directive of the configuration writes this log")

// Of finds the log that writes a file, by the file's path on the configured machine. The path may
// also be a rotated or compressed part of the log. If no directive has this path, Of takes a log
// with the same file name, or else one that a syslog daemon or a program receives. "-" means the
// only log. why explains any match other than by path.
func Of(all []Log, file string) (l *Log, why string, err error) {
	var found []*Log
	for _, by := range []struct {
		is  func(l *Log, name string) bool
		why string
	}{
		{func(l *Log, name string) bool { return !l.Pattern && l.Path == name }, ""}, // a name takes precedence over a variable
		{func(l *Log, name string) bool { return l.Pattern && l.matches(name) }, ""},
		{func(l *Log, name string) bool { return path.Base(l.Path) == path.Base(name) && !l.Pattern }, "matched by file name: the configuration writes %s"},
		{func(l *Log, _ string) bool { return l.Goes != "" }, "matched by the log that the configuration sends to %s"},
		{func(_ *Log, name string) bool { return name == "-" }, "the configuration has only one log format, for %s"},
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
				return nil, "", fmt.Errorf("%s: the configuration writes this log in two formats: %s; %s", file, found[0].why(), other.why())
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
	return nil, "", fmt.Errorf("%s: %w; logs in the configuration: %s", file, ErrNotNamed, Names(all))
}

// Names lists the logs as text for a message.
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

// matches reports whether a file name matches the log's Path, which may be a pattern.
func (l *Log) matches(name string) bool {
	ok, err := path.Match(l.Path, name)
	return ok && err == nil
}
