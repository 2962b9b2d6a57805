// script is the plug-in that runs a profile's own programs with TuneD's protocol of start, stop
// and verify, and the scripts before and after a unit's devices (script_pre, script_post).

package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Script turns [script] sections into changes.
var Script = plugin.Plugin{
	Name: "script",
	Doc:  "runs a profile's own programs: with start when the profile is applied, with stop when it is undone, with verify when it is verified",
	Options: []plugin.Option{{
		Name: "script",
		Doc:  "programs below a profile directory, called with start, stop full_rollback, or verify; programs of included profiles run first",
		Plan: planScript,
	}},
}

// ownDoing is the reason in every script's item: fettle cannot determine the effects of a program.
const ownDoing = "fettle does not know what the script changes; undo runs the script's stop, and cannot compare values"

func planScript(_ context.Context, r *plugin.Request, o profile.Option, _ string) ([]plugin.Item, error) {
	scripts := o.Scripts
	if len(scripts) == 0 {
		if plugin.IsNone(o.Value) {
			return nil, nil
		}
		scripts = []profile.Script{{Path: path.Clean(o.Value), Pos: o.Pos}}
	}
	items := make([]plugin.Item, 0, len(scripts))
	for _, s := range scripts {
		at := o
		at.Pos, at.Value = s.Pos, s.Path
		it := plugin.Want(setting.Setting{Kind: "script", Name: s.Path}, (&run{Env: r.Environ}).value(started), at)
		it.Why = ownDoing
		if err := allowed(r.Host, s.Path, r.ProfileDirs); err != nil {
			it.Verdict, it.Why = plugin.Unusable(err), err.Error()
		}
		items = append(items, it)
	}
	return items, nil
}

// UnitScripts plans a unit's script_pre and script_post once per device: pre before the unit's own
// items, post after them. The reverse order of undo is also TuneD's.
func UnitScripts(r *plugin.Request) (pre, post []plugin.Item) {
	one := func(attribute, file string) []plugin.Item {
		if file == "" {
			return nil
		}
		o := profile.Option{Name: attribute, Value: file, Pos: r.Unit.At(attribute)}
		var items []plugin.Item
		for _, dev := range r.Devices {
			it := plugin.Want(setting.Setting{Kind: "devscript", Name: file + " " + dev}, (&run{Env: r.Environ}).value(applied), o)
			it.Device, it.Why = dev, ownDoing
			if err := allowed(r.Host, file, r.ProfileDirs); err != nil {
				it.Verdict, it.Why = plugin.Unusable(err), err.Error()
			}
			items = append(items, it)
		}
		return items
	}
	return one("script_pre", r.Unit.ScriptPre), one("script_post", r.Unit.ScriptPost)
}

// allowed returns an error for a program that fettle does not run: outside the profile
// directories, missing, or writable by users other than root.
func allowed(h *host.Host, file string, profileDirs []string) error {
	if !path.IsAbs(file) {
		return fmt.Errorf("%s: not an absolute path; write ${i:PROFILE_DIR}/%s", file, file)
	}
	if profile.IsBuiltin(file) {
		return fmt.Errorf("%s: built-in profiles have no scripts", file)
	}
	real, err := h.Files.Resolve(file)
	if err != nil {
		return fmt.Errorf("cannot run the script: %w", err)
	}
	inside := false
	for _, d := range profileDirs {
		if dir, err := h.Files.Resolve(d); err == nil && strings.HasPrefix(real, strings.TrimSuffix(dir, "/")+"/") {
			inside = true
		}
	}
	if !inside {
		return fmt.Errorf("%s is not below a profile directory (%s)", file, strings.Join(profileDirs, ", "))
	}
	return runnable(h, file)
}

// runnable returns an error for a program that fettle does not run. It is also called right before
// each run, because a plan can be old.
func runnable(h *host.Host, file string) error {
	if err := profile.Trusted(h, file); err != nil {
		return err
	}
	st, err := h.Files.Stat(file)
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s: not a regular file", file)
	case st.Mode().Perm()&0o111 == 0:
		return fmt.Errorf("%s: not executable; run chmod +x", file)
	}
	return nil
}

// run is the record of a script's calls.
type run struct {
	Env   []string `json:"env,omitempty"`
	State string   `json:"state"` // starting, on, failed
	Said  string   `json:"said,omitempty"`
	// Mark is the tag of the start call's processes (host.Command).
	Mark string `json:"mark,omitempty"`
	// Made lists directories that were created for the shell library and must be removed later.
	Made []string `json:"made,omitempty"`
}

// value returns the setting's value while the script is on: the word and the variables of the
// call. A call with other variables has another effect.
func (r *run) value(word string) string {
	parts := []string{word}
	for _, e := range r.Env {
		name, v, _ := strings.Cut(e, "=")
		if strings.ContainsAny(v, " \t\n\"\\'") || v == "" {
			v = strconv.Quote(v)
		}
		parts = append(parts, name+"="+v)
	}
	return strings.Join(parts, " ")
}

// parseValue is the inverse of value.
func parseValue(text string) (word string, env []string, err error) {
	word, rest, more := strings.Cut(text, " ")
	for more {
		name, tail, ok := strings.Cut(rest, "=")
		if !ok || name == "" || strings.ContainsAny(name, " \"") {
			return "", nil, fmt.Errorf("script value %q: want WORD NAME=VALUE ...", text)
		}
		var v string
		if strings.HasPrefix(tail, `"`) {
			quoted, err := strconv.QuotedPrefix(tail)
			if err != nil {
				return "", nil, fmt.Errorf("script value %q: %w", text, err)
			}
			if v, err = strconv.Unquote(quoted); err != nil {
				return "", nil, fmt.Errorf("script value %q: %w", text, err)
			}
			tail = tail[len(quoted):]
			rest, more = strings.CutPrefix(tail, " ")
			if !more && tail != "" {
				return "", nil, fmt.Errorf("script value %q: text after a closing quote", text)
			}
		} else {
			v, rest, more = strings.Cut(tail, " ")
		}
		env = append(env, name+"="+v)
	}
	return word, env, nil
}

func (k kind) record(s setting.Setting) string {
	return recordDir + "/" + k.name + "-" + url.PathEscape(s.Name)
}

func (k kind) load(s setting.Setting) (*run, error) {
	b, err := k.host.Files.ReadFile(k.record(s))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var r run
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%s: %w", k.record(s), err)
	}
	return &r, nil
}

func (k kind) save(s setting.Setting, r *run) error {
	if err := k.host.Files.Mkdir(recordDir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return k.host.Files.Replace(k.record(s), append(b, '\n'), host.Attr{Mode: 0o600})
}

// exited describes a failed call, with its exit code and last output line.
func exited(call string, res host.Result) string {
	return fmt.Sprintf("the script's %s exited with %d%s", call, res.ExitCode, lastLine(res))
}

// forget removes a script's record and the directories created for the script.
func (k kind) forget(s setting.Setting, r *run) error {
	if err := k.host.Files.Remove(k.record(s)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, d := range slices.Backward(r.Made) {
		_ = k.host.Files.Remove(d) // fails if the directory is still in use
	}
	_ = k.host.Files.Remove(recordDir)
	return nil
}

// notStarted reports whether err means that the kernel did not start the script.
func notStarted(err error) bool {
	var n *host.NotStartedError
	return errors.As(err, &n)
}

// call runs the script with the variables and the tag of r.
func (k kind) call(ctx context.Context, s setting.Setting, r *run, words ...string) (host.Result, error) {
	file, device := k.split(s.Name)
	if err := runnable(k.host, file); err != nil {
		return host.Result{}, err
	}
	argv := append([]string{file}, words...)
	if device != "" {
		argv = append(argv, device)
	}
	return k.host.Exec.Run(ctx, host.Command{Argv: argv, Env: r.Env, Dir: path.Dir(file), Timeout: timeout, DiesWithCaller: true, Tag: r.Mark})
}

// lastLine returns the last line of a call's output, preferably from standard error, at most
// maxSaid bytes.
func lastLine(res host.Result) string {
	const maxSaid = 200
	for _, b := range [][]byte{res.Stderr, res.Stdout} {
		if t := strings.TrimSpace(string(b)); t != "" {
			t = t[strings.LastIndexByte(t, '\n')+1:]
			if len(t) > maxSaid {
				t = strings.ToValidUTF8(t[:maxSaid], "") + " …"
			}
			return ": " + t
		}
	}
	return ""
}
