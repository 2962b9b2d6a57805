// script is the plug-in that runs a profile's own programs: TuneD's
// contract of start, stop and verify, and the scripts around a unit's devices
// (script_pre, script_post).

package service

import (
	"context"
	"fmt"
	"path"
	"strings"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/profile"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// Script turns [script] sections into changes.
var Script = plugin.Plugin{
	Name: "script",
	Doc:  "runs a profile's own programs: start when it comes into force, stop when it goes, verify when it is verified",
	Options: []plugin.Option{{
		Name: "script",
		Doc:  "programs below a profile directory, each called with start, stop full_rollback, or verify; those of included profiles first",
		Plan: planScript,
	}},
}

// ownDoing is what a person is told beside every script: fettle cannot know
// what a program changes.
const ownDoing = "what the script does is its own: fettle takes it back by calling its stop, and cannot compare"

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

// UnitScripts plans a unit's script_pre and script_post: pre comes before the
// unit's own items and post after them, each once for every device. Undone
// backwards, that is TuneD's order too.
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

// allowed refuses what fettle does not run: a program outside the profile
// directories, one that is not there, and one that others than root can change.
func allowed(h *host.Host, file string, profileDirs []string) error {
	if !path.IsAbs(file) {
		return fmt.Errorf("%s: not an absolute path; write ${i:PROFILE_DIR}/%s", file, file)
	}
	if profile.IsBuiltin(file) {
		return fmt.Errorf("%s: a profile built into fettle has no scripts", file)
	}
	real, err := h.Files.Resolve(file)
	if err != nil {
		return fmt.Errorf("the script cannot be run: %w", err)
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

// runnable is checked again right before each run: a plan can be old.
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
		return fmt.Errorf("%s: not executable; chmod +x it", file)
	}
	return nil
}
