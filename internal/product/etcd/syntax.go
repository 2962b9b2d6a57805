package etcd

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/systemd"
)

// variables is the syntax of an environment file of systemd: one ETCD_NAME for each option. The key
// is the flag's name.
type variables struct{}

// variable converts an option to its variable: quota-backend-bytes is ETCD_QUOTA_BACKEND_BYTES.
func variable(option string) string {
	return "ETCD_" + strings.ToUpper(strings.ReplaceAll(option, "-", "_"))
}

func option(variable string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(variable, "ETCD_"), "_", "-"))
}

// Key implements conf.Syntax. It accepts a flag's name or its variable.
func (variables) Key(name string) (string, error) {
	name = strings.TrimLeft(name, "-")
	if strings.HasPrefix(name, "ETCD_") {
		name = option(name)
	}
	key, err := conf.Words{}.Key(name)
	if err == nil && option(variable(key)) != key {
		return "", fmt.Errorf("%q is not an option name; want lower-case letters, digits and \"-\"", name)
	}
	return key, err
}

// Assignments implements conf.Syntax. It ignores other variables in the file.
func (v variables) Assignments(text string) ([]conf.Assignment, error) {
	lines := strings.SplitAfter(text, "\n")
	starts := make([]int, len(lines))
	for i := 1; i < len(lines); i++ {
		starts[i] = starts[i-1] + len(lines[i-1])
	}
	var out []conf.Assignment
	for _, a := range systemd.EnvironmentFile(text) {
		if !strings.HasPrefix(a.Name, "ETCD_") {
			continue
		}
		key, err := v.Key(a.Name)
		if err != nil {
			continue
		}
		line := strings.TrimRight(lines[a.Line-1], "\r\n")
		_, rest, _ := strings.Cut(line, "=")
		literal := strings.Trim(rest, " \t\r")
		from := starts[a.Line-1] + len(line) - len(strings.TrimLeft(rest, " \t\r"))
		if got, ok := value(literal); !ok || got != a.Value || strings.TrimSpace(line[:len(line)-len(rest)-1]) != a.Name {
			return out, fmt.Errorf("%d: %s spans several lines or has escapes; change it by hand", a.Line, a.Name)
		}
		if literal == "" {
			from = starts[a.Line-1] + len(line)
		}
		out = append(out, conf.Assignment{Key: key, Literal: literal, Line: a.Line, From: from, To: from + len(literal)})
	}
	return out, nil
}

// value returns the value of a literal; ok is false if the value does not fit in one line.
func value(literal string) (string, bool) {
	if conf.OneLine(literal) != nil {
		return "", false
	}
	all := systemd.EnvironmentFile("X=" + literal + "\nY=1\n")
	if len(all) != 2 || all[1].Name != "Y" || all[1].Line != 2 || strings.Contains(literal, `\`) {
		return "", false
	}
	return all[0].Value, true
}

// Literal implements conf.Syntax.
func (variables) Literal(text string) (string, error) {
	if err := conf.OneLine(text); err != nil {
		return "", err
	}
	if _, ok := value(text); ok && strings.Trim(text, " \t\r") == text {
		return text, nil
	}
	quoted := `"` + text + `"`
	if got, ok := value(quoted); !ok || got != text {
		return "", fmt.Errorf("%q: %w: contains a quote or a backslash", text, conf.ErrValue)
	}
	return quoted, nil
}

// Unquote implements conf.Syntax.
func (variables) Unquote(literal string) string {
	if v, ok := value(literal); ok {
		return v
	}
	return literal
}

// Line implements conf.Syntax.
func (variables) Line(key, literal string) string { return variable(key) + "=" + literal }
