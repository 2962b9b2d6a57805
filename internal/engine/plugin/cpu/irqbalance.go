// irqbalance is the plug-in that keeps irqbalance(1) off some CPUs. It changes one
// assignment in irqbalance's environment file and no other byte.

package cpu

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// IRQBalance turns [irqbalance] sections into changes.
var IRQBalance = plugin.Plugin{
	Name: "irqbalance",
	Doc:  "bans irqbalance from some CPUs, and restarts irqbalance if it runs",
	Options: []plugin.Option{{
		Name: "banned_cpus",
		Doc:  "CPU list for " + irqbalanceVariable + " (irqbalance(1)); present CPUs only",
		Plan: planIRQBalance,
	}},
}

const (
	irqbalanceVariable = "IRQBALANCE_BANNED_CPULIST"
	irqbalanceMask     = "IRQBALANCE_BANNED_CPUS"
	irqbalanceArgs     = "IRQBALANCE_ARGS"
)

// files are the paths of irqbalance's environment file: Red Hat's and SUSE's, then Debian's.
var files = []string{"/etc/sysconfig/irqbalance", "/etc/default/irqbalance"}

func planIRQBalance(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	text := strings.TrimSpace(o.Value)
	cpus, err := profile.ParseCPUs(text)
	if err != nil {
		return nil, plugin.Invalid("%v", err)
	}
	if cpus.IsEmpty() && strings.Trim(text, `"'`) != "" {
		return nil, plugin.Invalid("%q is not a list of CPUs", o.Value)
	}
	file := plugin.FirstFile(r.Host, files)
	s := setting.Setting{Kind: "irqbalance", Name: file}
	if file == "" {
		s.Name = files[len(files)-1]
		return plugin.LacksFiles(r.Host, s, o, files, "irqbalance is not installed: neither %s exists", strings.Join(files, " nor ")), nil
	}
	present, err := cpuList(r.Host, "present")
	if beyond := cpus.Minus(present); err == nil && !beyond.IsEmpty() {
		return []plugin.Item{plugin.Refuse(s, o, plugin.Unsupported, "the machine has %s, not %s", present.Words(), beyond)}, nil
	}
	if b, err := r.Host.Files.ReadFile(file); err == nil {
		if line := maskLine(string(b)); line > 0 {
			return []plugin.Item{plugin.Refuse(s, o, plugin.Overridden, "not written: %s:%d sets %s, which irqbalance uses instead of %s; remove that line", file, line, irqbalanceMask, irqbalanceVariable)}, nil
		}
	}
	return []plugin.Item{plugin.Want(s, cpus.String(), o)}, nil
}

// maskLine returns the line of an environment file that sets irqbalanceMask, or 0. irqbalance
// 1.9.2 calls the mask discarded, but uses it and ignores the list (findings/irqbalance-banned-mask.sh).
func maskLine(text string) (at int) {
	number := 0
	for line := range strings.Lines(text) {
		number++
		if value, ok := strings.CutPrefix(strings.TrimLeft(line, " \t"), irqbalanceMask+"="); ok {
			at = number
			if unquote(value) == "" {
				at = 0
			}
		}
	}
	return at
}

// IRQBalanceKinds returns the setting kinds that this plug-in adds:
//
//	irqbalance:FILE                  the value of IRQBALANCE_BANNED_CPULIST in FILE
//	irqbalance:FILE/IRQBALANCE_ARGS  the value of IRQBALANCE_ARGS in FILE
func IRQBalanceKinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{"irqbalance": kind{h}}
}

type kind struct{ host *host.Host }

func (kind) Files(s setting.Setting) []string {
	file, _ := variableOf(s)
	return []string{file}
}

// variableOf returns the environment file of a setting and its variable.
func variableOf(s setting.Setting) (file, variable string) {
	if file, ok := strings.CutSuffix(s.Name, "/"+irqbalanceArgs); ok {
		return file, irqbalanceArgs
	}
	return s.Name, irqbalanceVariable
}

func (k kind) Resolve(s setting.Setting) (setting.Setting, error) {
	if file, _ := variableOf(s); slices.Contains(files, file) {
		return s, nil
	}
	return setting.Setting{}, fmt.Errorf("%s: want one of %s", s, strings.Join(files, ", "))
}

func (k kind) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	file, variable := variableOf(s)
	b, err := k.host.Files.ReadFile(file)
	if err != nil {
		return setting.Value{}, err
	}
	v, ok := lastValue(string(b), variable)
	switch {
	case !ok:
		return setting.Absent, nil
	case strings.HasSuffix(v, `\`):
		return setting.Value{}, fmt.Errorf("%s: %s continues on the next line; write it on one line", file, variable)
	}
	return setting.Text(v), nil
}

func (k kind) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	file, variable := variableOf(s)
	st, err := k.host.Files.Stat(file)
	if err != nil {
		return err
	}
	b, err := k.host.Files.ReadFile(file)
	if err != nil {
		return err
	}
	if strings.ContainsAny(v.Text, "\n\\") {
		return fmt.Errorf("%s: %q has more than one line, or a backslash", s, v.Text)
	}
	text := dropLast(string(b), variable)
	if !v.Absent {
		text = setLast(string(b), variable, v.Text)
	}
	if text != string(b) {
		if err := k.host.Files.Replace(file, []byte(text), host.AttrOf(st)); err != nil {
			return err
		}
	}
	return restart(ctx, k.host)
}

// restart restarts irqbalance if it runs, so that it reads its environment file.
func restart(ctx context.Context, h *host.Host) error {
	var err error
	switch {
	case host.HasSystemd(h):
		_, err = host.Run(ctx, h, "systemctl", "try-restart", "irqbalance.service")
	case host.HasProgram(h, "rc-service"):
		err = ifRunning(ctx, h, "rc-service")
	case host.HasProgram(h, "service"):
		err = ifRunning(ctx, h, "service")
	}
	if err != nil {
		return fmt.Errorf("file written, but irqbalance could not be restarted: %w", err)
	}
	return nil
}

func ifRunning(ctx context.Context, h *host.Host, program string) error {
	res, err := h.Exec.Run(ctx, host.Command{Argv: []string{program, "irqbalance", "status"}})
	if err != nil || res.ExitCode != 0 {
		return err
	}
	_, err = host.Run(ctx, h, program, "irqbalance", "restart")
	return err
}

// Equal compares two CPU lists by their CPUs, and other values as text.
func (kind) Equal(a, b setting.Value) bool {
	return a.Text == b.Text || sameCPUs(unquote(a.Text), unquote(b.Text))
}

func (kind) Coupled(setting.Setting) []setting.Setting { return nil }
func (kind) Lifetime() setting.Lifetime                { return setting.File }

func unquote(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// assignment returns the offset of the value in a line that assigns a variable. ok is false for
// other lines.
func assignment(line, variable string) (start int, ok bool) {
	trimmed := strings.TrimLeft(line, " \t")
	return len(line) - len(trimmed) + len(variable) + 1, strings.HasPrefix(trimmed, variable+"=")
}

// split splits the text at the last assignment, which is in force (systemd.exec(5),
// EnvironmentFile): the text before its value, the value, and the rest.
func split(text, variable string) (before, value, after string, ok bool) {
	at, end := -1, -1
	off := 0
	for line := range strings.Lines(text) {
		if i, ok := assignment(line, variable); ok {
			at, end = off+i, off+len(strings.TrimSuffix(line, "\n"))
		}
		off += len(line)
	}
	if at < 0 {
		return text, "", "", false
	}
	return text[:at], text[at:end], text[end:], true
}

func lastValue(text, variable string) (string, bool) {
	_, v, _, ok := split(text, variable)
	return v, ok
}

// setLast replaces the value of the last assignment. If none exists, it adds a line, which
// dropLast removes exactly.
func setLast(text, variable, value string) string {
	before, _, after, ok := split(text, variable)
	switch {
	case ok:
		return before + value + after
	case text == "" || strings.HasSuffix(text, "\n"):
		return text + variable + "=" + value + "\n"
	}
	return text + "\n" + variable + "=" + value
}

// dropLast removes the line of the last assignment. If no line feed follows the line, it removes
// the preceding one.
func dropLast(text, variable string) string {
	before, _, after, ok := split(text, variable)
	if !ok {
		return text
	}
	start := strings.LastIndexByte(before, '\n') + 1
	if after == "" {
		return strings.TrimSuffix(before[:start], "\n")
	}
	return before[:start] + strings.TrimPrefix(after, "\n")
}
