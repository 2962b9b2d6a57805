package postgresql

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// text returns the answer in its recorded form: each line has the name first and the value last, so
// redaction removes only a secret value.
func (a answer) text() []byte {
	var b strings.Builder
	line := func(fields ...string) {
		for i, f := range fields {
			fields[i] = strings.Map(func(r rune) rune {
				if r == '\t' || r == '\n' || r == '\r' {
					return ' '
				}
				return r
			}, f)
		}
		b.WriteString(strings.Join(fields, "\t") + "\n")
	}
	float := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	line("version", a.Version)
	line("uptime_s", float(a.UptimeS))
	line("loaded_s", float(a.Loaded))
	line("connections_used", float(a.Connections))
	if a.DataBytes != nil {
		line("data_bytes", float(*a.DataBytes))
	}
	for _, e := range a.Errors {
		line("error", e)
	}
	for _, name := range slices.Sorted(maps.Keys(a.Settings)) {
		r := a.Settings[name]
		line("setting", r.Context, r.Source, r.File, strconv.Itoa(r.Line), strconv.FormatBool(r.Pending), name, r.Value)
	}
	return []byte(b.String())
}

// parseAnswer parses the output of text.
func parseAnswer(text string) (*answer, error) {
	a := &answer{Settings: map[string]running{}, Errors: []string{}}
	numbers := map[string]*float64{"uptime_s": &a.UptimeS, "loaded_s": &a.Loaded, "connections_used": &a.Connections, "data_bytes": nil}
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		f := strings.Split(line, "\t")
		to, isNumber := numbers[f[0]]
		switch {
		case len(f) == 2 && isNumber:
			v, err := strconv.ParseFloat(f[1], 64)
			if err != nil {
				return nil, fmt.Errorf("line %d: %q is not a number", n+1, f[1])
			}
			if to == nil {
				a.DataBytes = &v
			} else {
				*to = v
			}
		case len(f) == 2 && f[0] == "version":
			a.Version = f[1]
		case len(f) == 2 && f[0] == "error":
			a.Errors = append(a.Errors, f[1])
		case len(f) == 8 && f[0] == "setting":
			at, err := strconv.Atoi(f[4])
			if err != nil {
				return nil, fmt.Errorf("line %d: %q is not a line number", n+1, f[4])
			}
			a.Settings[f[6]] = running{Context: f[1], Source: f[2], File: f[3], Line: at, Pending: f[5] == "true", Value: f[7]}
		default:
			return nil, fmt.Errorf("line %d: cannot read %.60q", n+1, line)
		}
	}
	if a.Version == "" {
		return nil, fmt.Errorf("the server does not report its version")
	}
	return a, nil
}
