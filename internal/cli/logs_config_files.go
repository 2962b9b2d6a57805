package cli

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/product/accesslog"
	"fettle.dev/fettle/internal/ui"
)

// configuredLog is a log that a configuration names, with all directives that write it.
type configuredLog struct {
	path   string
	at     string   // the first of them
	scopes []string // in which all requests are written
	some   []string // in which a condition decides
	timed  bool
	names  []string // its files
}

// files are the logs that the configuration names and that are there, each request in one
// of them; of others say is told.
func (c *logsConfig) files(say func(string)) ([]string, error) {
	var found []configuredLog
	var missing []string
	for i := range c.logs {
		l := &c.logs[i]
		if l.Own {
			continue
		}
		if l.Path == "" {
			say(fmt.Sprintf("%s: it goes to %s, which is no file: left out", l.At, l.Goes))
			continue
		}
		names, err := c.there(l)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			if l.Goes == "" {
				missing = append(missing, fmt.Sprintf("%s (%s)", l.Path, l.At))
			}
			continue
		}
		at := slices.IndexFunc(found, func(f configuredLog) bool { return f.path == l.Path })
		if at < 0 {
			at = len(found)
			f, err := l.Compile()
			found = append(found, configuredLog{path: l.Path, at: l.At, names: names, timed: err == nil && f.Field(logformat.FieldDuration) >= 0})
		}
		if f := &found[at]; l.Some {
			f.some = append(f.some, l.Scopes...)
		} else {
			f.scopes = append(f.scopes, l.Scopes...)
		}
	}
	if len(c.logs) == 0 {
		return nil, ui.Hinted(ui.Failed, errors.New("the configuration names no log of requests"), "fettle logs FILE reads one, and finds the format in its lines")
	}
	if len(found) == 0 {
		return nil, ui.Exit(ui.Failed, fmt.Errorf("none of the logs that the configuration names is there: %s", accesslog.Names(c.logs)))
	}
	for _, m := range missing {
		say(m + " is not there: left out")
	}
	var out []string
	for _, f := range once(found, say) {
		for _, name := range f.names {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out, nil
}

// there are the files of a log. A file that a directive names is not one of a pattern's
// (accesslog.Of): it would be read although once has left it out.
func (c *logsConfig) there(l *accesslog.Log) (names []string, err error) {
	names = []string{l.Path}
	if l.Pattern {
		if names, err = host.Glob(c.host.Files, l.Path); err != nil {
			return nil, err
		}
		names = slices.DeleteFunc(names, func(name string) bool {
			return slices.ContainsFunc(c.logs, func(o accesslog.Log) bool { return !o.Pattern && o.Path == name })
		})
	}
	return slices.DeleteFunc(names, func(name string) bool {
		_, statErr := c.host.Files.Stat(name)
		if host.NotFound(statErr) {
			return true
		}
		if statErr != nil {
			err = statErr
		}
		return false
	}), err
}

// once leaves out logs whose requests are in others: a server that has two logs writes
// each request into both. Of two that of more servers is taken, and else the one that says
// how long requests took.
func once(all []configuredLog, say func(string)) []configuredLog {
	by := make([]int, len(all))
	for i := range by {
		by[i] = i
	}
	number := func(yes bool) int {
		if yes {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(by, func(a, b int) int {
		x, y := &all[a], &all[b]
		return cmp.Or(number(len(x.scopes) == 0)-number(len(y.scopes) == 0), len(y.scopes)-len(x.scopes), number(y.timed)-number(x.timed))
	})
	has := map[string]int{} // the log that has a scope's requests
	left := map[int]bool{}
	for _, i := range by {
		l := &all[i]
		for _, s := range slices.Concat(l.scopes, l.some) {
			first, taken := has[s]
			if !taken || first == i {
				continue
			}
			o := &all[first]
			if len(o.scopes) == 0 { // both are by a condition
				say(fmt.Sprintf("%s (%s) and %s (%s) are of the same server, each by a condition: a request that is in both counts twice", o.path, o.at, l.path, l.at))
				continue
			}
			say(fmt.Sprintf("%s (%s) has requests that %s (%s) has too: left out, as they would count twice", l.path, l.at, o.path, o.at))
			left[i] = true
			break
		}
		if left[i] {
			continue
		}
		for _, s := range slices.Concat(l.scopes, l.some) {
			if _, taken := has[s]; !taken {
				has[s] = i
			}
		}
	}
	var out []configuredLog
	for i := range all {
		if !left[i] {
			out = append(out, all[i])
		}
	}
	return out
}
