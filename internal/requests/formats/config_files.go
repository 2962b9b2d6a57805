package formats

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

// configuredLog is a log that a configuration names, with the directives that write to it.
type configuredLog struct {
	path   string
	at     string   // position of the first directive
	scopes []string // scopes that log all their requests
	some   []string // scopes that log some of their requests, by a condition
	timed  bool
	names  []string // its files
}

// Files returns the existing logs in the configuration, without logs that would repeat
// requests. say is called with a message for each omitted log.
func (c *Config) Files(say func(string)) ([]string, error) {
	var found []configuredLog
	var missing []string
	for i := range c.logs {
		l := &c.logs[i]
		if l.Own {
			continue
		}
		if l.Path == "" {
			say(fmt.Sprintf("%s: log ignored, because it goes to %s, which is not a file", l.At, l.Goes))
			continue
		}
		names, err := c.existing(l)
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
		return nil, ui.Hinted(ui.Failed, errors.New("the configuration defines no request log"), "name a log: fettle logs FILE detects its format")
	}
	if len(found) == 0 {
		return nil, ui.Exit(ui.Failed, fmt.Errorf("logs named in the configuration do not exist: %s", accesslog.Names(c.logs)))
	}
	for _, m := range missing {
		say(m + " does not exist; ignored")
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

// existing returns the files of a log. A file that another directive names literally does not
// belong to a pattern (accesslog.Of): otherwise it would be read even if once omitted it.
func (c *Config) existing(l *accesslog.Log) (names []string, err error) {
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

// once omits logs that repeat the requests of others: a server with two logs writes each
// request to both. It prefers the log that covers more servers, then the one with durations.
func once(all []configuredLog, say func(string)) []configuredLog {
	by := make([]int, len(all))
	for i := range by {
		by[i] = i
	}
	number := map[bool]int{true: 1}
	slices.SortStableFunc(by, func(a, b int) int {
		x, y := &all[a], &all[b]
		return cmp.Or(number[len(x.scopes) == 0]-number[len(y.scopes) == 0], len(y.scopes)-len(x.scopes), number[y.timed]-number[x.timed])
	})
	has := map[string]int{} // log that holds a scope's requests
	left := map[int]bool{}
	for _, i := range by {
		l := &all[i]
		for _, s := range slices.Concat(l.scopes, l.some) {
			first, taken := has[s]
			if !taken || first == i {
				continue
			}
			o := &all[first]
			if len(o.scopes) == 0 { // both log by a condition
				say(fmt.Sprintf("%s (%s) and %s (%s) are conditional logs of the same server; a request that is in both counts twice", o.path, o.at, l.path, l.at))
				continue
			}
			say(fmt.Sprintf("%s (%s) ignored: its requests are also in %s (%s) and would count twice", l.path, l.at, o.path, o.at))
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
