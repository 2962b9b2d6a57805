package httpd

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/text"
)

// ulimitVariable is the variable with the command by which Debian's apache2ctl sets the open-file
// limit before it starts httpd, whatever the unit sets. The default is "ulimit -n 8192"
// (apache2ctl, ULIMIT_MAX_FILES).
const ulimitVariable = "APACHE_ULIMIT_MAX_FILES"

// envvarsFile returns the instance's script that apache2ctl reads, or "".
func envvarsFile(h *host.Host, main string) string {
	in := instanceOf(h, main)
	if _, err := h.Files.Stat(in.envvars); in.envvars == "" || err != nil {
		return ""
	}
	return in.envvars
}

// fileOf returns envvars for the script's variable, and the main file for directives.
func fileOf(h *host.Host, main, key string) string {
	if file := envvarsFile(h, main); file != "" && strings.EqualFold(key, ulimitVariable) {
		return file
	}
	return main
}

// isEnvvars reports whether a file is the envvars script rather than a file of directives.
func isEnvvars(file string) bool { return path.Base(file) == "envvars" }

func syntaxOf(_ *host.Host, file string) conf.Syntax {
	if isEnvvars(file) {
		return envvars{}
	}
	return syntax{}
}

// mainOf returns the main file of the instance that a file belongs to.
func mainOf(h *host.Host, file string) string {
	all, _ := instances(h)
	for _, in := range all {
		if real, err := h.Files.Resolve(in.envvars); in.envvars != "" && err == nil && real == file {
			if main, err := h.Files.Resolve(in.Main); err == nil {
				return main
			}
			return in.Main
		}
	}
	return file
}

// envvars is the syntax of ulimitVariable in the envvars script. It understands only lines that
// begin with the assignment.
type envvars struct{}

// Key implements conf.Syntax.
func (envvars) Key(name string) (string, error) {
	if !strings.EqualFold(name, ulimitVariable) {
		return "", fmt.Errorf("%q: only %s can be set in envvars", name, ulimitVariable)
	}
	return ulimitVariable, nil
}

var assigned = text.LazyRegexp(`^(?:export[ \t]+)?` + ulimitVariable + `=("[^"'\\$` + "`" + `]*"|'[^'\\]*'|[A-Za-z0-9_./-]*)[ \t]*(?:#.*)?$`)

// Assignments implements conf.Syntax.
func (envvars) Assignments(text string) ([]conf.Assignment, error) {
	var out []conf.Assignment
	at, number := 0, 0
	for raw := range strings.Lines(text) {
		number++
		line := strings.TrimRight(raw, "\n")
		begin := at
		at += len(raw)
		if before, _, set := strings.Cut(line, ulimitVariable); !set || strings.Contains(before, "#") {
			continue
		}
		m := assigned().FindStringSubmatchIndex(line)
		if m == nil {
			return nil, fmt.Errorf("%d: %s is set by shell code; change it by hand", number, ulimitVariable)
		}
		out = append(out, conf.Assignment{Key: ulimitVariable, Literal: line[m[2]:m[3]], Line: number, From: begin + m[2], To: begin + m[3]})
	}
	return out, nil
}

// Literal implements conf.Syntax.
func (envvars) Literal(value string) (string, error) {
	if err := conf.OneLine(value); err != nil {
		return "", err
	}
	if m := assigned().FindStringSubmatch(ulimitVariable + "=" + value); m != nil && m[1] == value {
		return value, nil
	}
	if strings.ContainsAny(value, `'"\`) || strings.Join(strings.Fields(value), " ") != value {
		return "", fmt.Errorf("%q: %w: contains a quote, a backslash or several blanks in a row", value, conf.ErrValue)
	}
	return "'" + value + "'", nil
}

// Unquote implements conf.Syntax.
func (envvars) Unquote(literal string) string {
	if n := len(literal); n >= 2 && (literal[0] == '"' || literal[0] == '\'') && literal[n-1] == literal[0] {
		return literal[1 : n-1]
	}
	return literal
}

// Line implements conf.Syntax.
func (envvars) Line(key, literal string) string { return key + "=" + literal }

var ulimitCall = text.LazyRegexp(`^ulimit -n ([1-9][0-9]{0,9})$`)

// ulimitFiles returns the number of files that a value of the variable allows; ok is false if the
// value is not ulimit -n.
func ulimitFiles(value string) (files int64, ok bool) {
	if m := ulimitCall().FindStringSubmatch(value); m != nil {
		files, err := strconv.ParseInt(m[1], 10, 64)
		return files, err == nil
	}
	return 0, false
}

// checkUlimit returns an error for any command other than ulimit -n, because apache2ctl runs the
// value as root.
func checkUlimit(value string) error {
	if _, ok := ulimitFiles(value); !ok {
		return fmt.Errorf("%w: %q: want ulimit -n NUMBER", setting.ErrNotSettable, value)
	}
	return nil
}

// ulimitEffect returns OK if the running server has the limit in its script.
func ulimitEffect(ctx context.Context, h *host.Host, file, literal string) (plugin.Verdict, string) {
	want, ok := ulimitFiles(envvars{}.Unquote(literal))
	if !ok {
		return plugin.Unknown, fmt.Sprintf("unknown limit %s=%s", ulimitVariable, literal)
	}
	g, err := processes(ctx, h, mainOf(h, file))
	switch {
	case errors.Is(err, product.ErrStopped):
		return plugin.OK, "in force after the next start of the server"
	case err != nil:
		return plugin.Unknown, err.Error()
	case g.Main.OpenFiles == want:
		return plugin.OK, ""
	}
	changed := product.Changed(ctx, h, file, []string{file})
	if product.Since(changed, g.Main, nil) == product.Yes {
		return plugin.Overridden, fmt.Sprintf("httpd was started after %s was written, but may open only %d files: not started by apache2ctl, or limited by fs.nr_open", file, g.Main.OpenFiles)
	}
	return plugin.NeedsRestart, fmt.Sprintf("the server may open %d files until it is restarted", g.Main.OpenFiles)
}

// limitScript answers with the script that sets the open-file limit if Debian's apache2ctl starts
// httpd; absent if the unit's own limit applies.
func limitScript(i *installed) fact.Answer {
	file := envvarsFile(i.Host, i.Main)
	if file == "" || i.RunErr == nil && i.Run.Main.Unit != "" && !startedByScript(i) {
		return fact.Answer{}
	}
	return fact.Answer{Value: file, At: file}
}

// startedByScript reports whether the running server's unit calls apache2ctl, as the distribution's
// unit does. It returns true if the unit is unreadable.
func startedByScript(i *installed) bool {
	u, err := systemd.New(i.Host).Load(i.Run.Main.Unit)
	if err != nil {
		return true
	}
	argv, _ := u.Command()
	return len(argv) == 0 || slices.Contains([]string{"apache2ctl", "apachectl"}, path.Base(argv[0]))
}
