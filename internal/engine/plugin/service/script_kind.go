package service

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// ScriptKinds returns the setting kinds that this plug-in adds:
//
//	script:/path            "stopped", "started TUNED_name=value ...", "failed ..."
//	devscript:/path DEVICE  "unapplied", "applied TUNED_name=value ...", "failed ..."
//
// The effects of a script cannot be read from the machine, so a record in /run has its calls. The
// record ends with the boot, like the journal's entry.
func ScriptKinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{
		"script":    kind{h, "script", started, "stopped", "start", "stop"},
		"devscript": kind{h, "devscript", applied, "unapplied", "apply", "unapply"},
	}
}

const (
	started = "started"
	applied = "applied"
	// recordDir is outside /run/fettle, which a service manager may empty when the daemon stops.
	recordDir = "/run/fettle-scripts"
	// timeout is the time limit of one call. TuneD has none, but a hanging script would block the
	// transaction forever.
	timeout = 10 * time.Minute
)

// libraryDirs are the directories that TuneD's shell library uses to store values to restore.
// TuneD's daemon creates them, so fettle must too when it runs scripts.
var libraryDirs = []string{"/run/tuned", "/var/lib/tuned"}

type kind struct {
	host        *host.Host
	name        string
	on, off     string // words of the value
	start, stop string // arguments of the call
}

// CheckRequest rejects programs for which allowed returns an error.
func (k kind) CheckRequest(s setting.Setting, _ setting.Value, profileDirs []string) error {
	file, _ := k.split(s.Name)
	if err := allowed(k.host, file, profileDirs); err != nil {
		return fmt.Errorf("%s: %w: %w", s, setting.ErrNotSettable, err)
	}
	return nil
}

// split splits "/path DEVICE". A plain script has no device.
func (k kind) split(name string) (file, device string) {
	if k.name == "script" {
		return name, ""
	}
	if i := strings.LastIndexByte(name, ' '); i >= 0 {
		return name[:i], name[i+1:]
	}
	return name, ""
}

func (k kind) Resolve(s setting.Setting) (setting.Setting, error) {
	file, device := k.split(s.Name)
	if !path.IsAbs(file) {
		return setting.Setting{}, fmt.Errorf("%s: want an absolute path", s)
	}
	if (k.name == "devscript") != (device != "") {
		return setting.Setting{}, fmt.Errorf("%s: want devscript:/path DEVICE", s)
	}
	file = path.Clean(file)
	if device != "" {
		file += " " + device
	}
	return setting.Setting{Kind: k.name, Name: file}, nil
}

// Read returns the recorded state. It never calls the script; Effect does.
func (k kind) Read(_ context.Context, s setting.Setting) (setting.Value, error) {
	r, err := k.load(s)
	switch {
	case err != nil:
		return setting.Value{}, err
	case r == nil:
		return setting.Text(k.off), nil
	case r.State == "on":
		return setting.Text(r.value(k.on)), nil
	case r.State == "failed":
		return setting.Text("failed: " + r.Said), nil
	}
	return setting.Text("the script was interrupted during its " + k.start), nil
}

// Write calls the script. It writes the record before the call, so undo also stops an interrupted
// call.
func (k kind) Write(ctx context.Context, s setting.Setting, v setting.Value) error {
	before, err := k.load(s)
	if err != nil {
		return err
	}
	word, env, err := parseValue(v.Text)
	switch {
	case err != nil:
		return err
	case v.Absent || word != k.on && word != k.off:
		return fmt.Errorf("%s: want %q or %q, not %q", s, k.off, k.on, v.Text)
	}
	var stopped error
	if before != nil {
		stopped = k.end(ctx, s, before)
	}
	if word == k.off {
		return stopped
	}
	r := &run{Env: env, State: "starting", Mark: rand.Text(), Made: k.makeLibraryDirs()}
	if err := k.save(s, r); err != nil {
		return err
	}
	res, err := k.call(ctx, s, r, k.start)
	if notStarted(err) {
		// The script has not run at all, so there is nothing to stop.
		return errors.Join(err, stopped, k.forget(s, r))
	}
	switch {
	case errors.Is(err, context.Canceled):
		r.State, r.Said = "failed", "the script's "+k.start+" was interrupted"
	case err != nil:
		r.State, r.Said = "failed", err.Error()
	case res.ExitCode != 0:
		// Many scripts end with the exit code of their last command. So this is only a warning,
		// and the script's verify decides.
		r.State, r.Said = "on", exited(k.start, res)
	default:
		r.State = "on"
	}
	// A failed call is a state, not an error to retry: it may have done part of its work, and only
	// stop reverts that.
	if err := k.save(s, r); err != nil {
		return err
	}
	var said []string
	if stopped != nil {
		said = append(said, stopped.Error())
	}
	if r.Said != "" {
		said = append(said, r.Said)
	}
	if len(said) > 0 {
		return &setting.ProgramWarning{Text: strings.Join(said, "; ")}
	}
	return nil
}

// CleanAfterReboot calls stop for a script that was on at shutdown. Its kernel settings are gone,
// but only its stop can revert files that it wrote.
func (k kind) CleanAfterReboot(ctx context.Context, s setting.Setting, had setting.Value) (bool, error) {
	word, _, _ := strings.Cut(had.Text, " ")
	if word == k.off || had.Absent {
		return false, nil
	}
	if now, err := k.load(s); err != nil || now != nil {
		return false, err // on again: undoing that start calls stop
	}
	r := &run{Made: k.makeLibraryDirs()}
	if word == k.on { // a failed start has no variables in its value
		var err error
		if _, r.Env, err = parseValue(had.Text); err != nil {
			return false, err
		}
	}
	return true, k.end(ctx, s, r)
}

// end calls stop with the variables of the start. The script counts as stopped whatever the exit
// code, for the reason given in Write.
func (k kind) end(ctx context.Context, s setting.Setting, r *run) error {
	if e, ok := k.host.Exec.(host.TaggedKiller); ok && r.State == "starting" && r.Mark != "" {
		// Processes of an interrupted start would run concurrently with stop.
		if err := e.KillTagged(r.Mark); err != nil {
			return err
		}
	}
	res, err := k.call(ctx, s, &run{Env: r.Env}, k.stop, "full_rollback")
	file, _ := k.split(s.Name)
	// If the kernel cannot start the program for stop, it could not start it earlier either,
	// unless its start is known to have ended.
	never := notStarted(err) && (r.State == "starting" || r.State == "failed")
	if _, gone := k.host.Files.Stat(file); err != nil && !never && !errors.Is(gone, fs.ErrNotExist) {
		return err
	}
	if err := k.forget(s, r); err != nil {
		return err
	}
	if err != nil {
		return &setting.ProgramWarning{Text: fmt.Sprintf("cannot run the script's %s: %v", k.stop, err)}
	}
	if res.ExitCode != 0 {
		return &setting.ProgramWarning{Text: exited(k.stop, res)}
	}
	return nil
}

func (k kind) makeLibraryDirs() (made []string) {
	for _, d := range libraryDirs {
		if k.host.Files.Mkdir(d, 0o755) == nil {
			made = append(made, d)
		}
	}
	return made
}

type ignoreMissing struct{}

// IgnoreMissing makes Effect pass ignore_missing to a script's verify, as `tuned-adm verify
// --ignore-missing` does.
func IgnoreMissing(ctx context.Context) context.Context {
	return context.WithValue(ctx, ignoreMissing{}, true)
}

// Effect calls the script's own verify, which is the only way to check a script.
func (k kind) Effect(ctx context.Context, s setting.Setting, want setting.Value) (plugin.Verdict, string) {
	r, err := k.load(s)
	if err != nil {
		return plugin.Unknown, err.Error()
	}
	if r == nil {
		return plugin.OK, ""
	}
	words := []string{"verify"}
	if ctx.Value(ignoreMissing{}) != nil {
		words = append(words, "ignore_missing")
	}
	res, err := k.call(ctx, s, &run{Env: r.Env}, words...)
	switch {
	case err != nil:
		return plugin.Unknown, "cannot run the script's verify: " + err.Error()
	case res.ExitCode != 0:
		return plugin.Drifted, exited("verify", res)
	}
	return plugin.OK, r.Said
}

func (kind) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (kind) Coupled(setting.Setting) []setting.Setting { return nil }
func (kind) Lifetime() setting.Lifetime                { return setting.Runtime }
