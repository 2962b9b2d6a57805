package script

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/plugin"
	"fettle.dev/fettle/internal/setting"
)

// Kinds are the kinds of setting that this plug-in adds:
//
//	script:/path            "stopped", "started TUNED_name=value ...", "failed ..."
//	devscript:/path DEVICE  "unapplied", "applied TUNED_name=value ...", "failed ..."
//
// What a script has done cannot be read from the machine, so a record below
// /run says what has been called; it ends with the boot, as the entry does.
func Kinds(h *host.Host) map[string]setting.Kind {
	return map[string]setting.Kind{
		"script":    kind{h, "script", started, "stopped", "start", "stop"},
		"devscript": kind{h, "devscript", applied, "unapplied", "apply", "unapply"},
	}
}

const (
	started = "started"
	applied = "applied"
	// recordDir is no part of /run/fettle, which a service manager may empty
	// when the daemon stops.
	recordDir = "/run/fettle-scripts"
	// timeout of one call. TuneD has none; a script that hangs would hold the
	// transaction for ever.
	timeout = 10 * time.Minute
)

// libraryDirs are where TuneD's shell library keeps what it has to restore; its
// daemon makes them, so whoever runs scripts in its place must too.
var libraryDirs = []string{"/run/tuned", "/var/lib/tuned"}

type kind struct {
	host        *host.Host
	name        string
	on, off     string // the words of the value
	start, stop string // the words of the call
}

// run is what is known of a script that has been called.
type run struct {
	Env   []string `json:"env,omitempty"`
	State string   `json:"state"` // starting, on, failed
	Said  string   `json:"said,omitempty"`
	// Mark is that of the call of start (host.Command).
	Mark string `json:"mark,omitempty"`
	// Made are directories made for the shell library, to be removed again.
	Made []string `json:"made,omitempty"`
}

// value is the setting's value for a script that is on: the word and the
// variables it was called with, since other variables are another effect.
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

// MayAsk refuses programs that no profile could name.
func (k kind) MayAsk(s setting.Setting, _ setting.Value, profileDirs []string) error {
	file, _ := k.split(s.Name)
	if err := allowed(k.host, file, profileDirs); err != nil {
		return fmt.Errorf("%s: %w: %w", s, setting.ErrNoPlace, err)
	}
	return nil
}

// split takes "/path DEVICE" apart; a plain script has no device.
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

// Read says what has been called. It never calls the script: Effect does.
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
	return setting.Text("cut off while it was called with " + k.start), nil
}

// Write calls the script. The record is there before the call, so that a call
// that is cut off is known, and stopped by undo.
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
		// Nothing of it has run, so there is nothing that stop could take back.
		return errors.Join(err, stopped, k.forget(s, r))
	}
	switch {
	case errors.Is(err, context.Canceled):
		r.State, r.Said = "failed", "its "+k.start+" was interrupted"
	case err != nil:
		r.State, r.Said = "failed", err.Error()
	case res.ExitCode != 0:
		// Scripts in the field end with the exit code of whatever they did
		// last, so this is told and their own verify decides.
		r.State, r.Said = "on", exited(k.start, res)
	default:
		r.State = "on"
	}
	// A call that failed is a state, not an error to be tried again: half of it
	// may have been done, and only stop takes that back.
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
		return &setting.Complaint{Text: strings.Join(said, "; ")}
	}
	return nil
}

// exited says what call ended with which exit code.
func exited(call string, res host.Result) string {
	return fmt.Sprintf("its %s exited with %d%s", call, res.ExitCode, lastLine(res))
}

// AfterBoot calls stop for a script that was on when the machine went down. What
// it had set in the running kernel is gone, the files it wrote are not, and only
// its stop knows them.
func (k kind) AfterBoot(ctx context.Context, s setting.Setting, had setting.Value) (bool, error) {
	word, _, _ := strings.Cut(had.Text, " ")
	if word == k.off || had.Absent {
		return false, nil
	}
	if now, err := k.load(s); err != nil || now != nil {
		return false, err // on again: the undo of that start calls stop
	}
	r := &run{Made: k.makeLibraryDirs()}
	if word == k.on { // a start that failed has no variables in its value
		var err error
		if _, r.Env, err = parseValue(had.Text); err != nil {
			return false, err
		}
	}
	return true, k.end(ctx, s, r)
}

// end calls stop with the variables of the start. Its exit code does not keep
// the script from counting as stopped, for the same reason as in Write.
func (k kind) end(ctx context.Context, s setting.Setting, r *run) error {
	if e, ok := k.host.Exec.(host.Ender); ok && r.State == "starting" && r.Mark != "" {
		// A start that was cut off: what it has begun would go on beside stop.
		if err := e.EndMarked(r.Mark); err != nil {
			return err
		}
	}
	res, err := k.call(ctx, s, &run{Env: r.Env}, k.stop, "full_rollback")
	file, _ := k.split(s.Name)
	// What the kernel does not start for stop, it did not start before either,
	// unless its start is known to have come to an end.
	never := notStarted(err) && (r.State == "starting" || r.State == "failed")
	if _, gone := k.host.Files.Stat(file); err != nil && !never && !errors.Is(gone, fs.ErrNotExist) {
		return err
	}
	if err := k.forget(s, r); err != nil {
		return err
	}
	if err != nil {
		return &setting.Complaint{Text: fmt.Sprintf("its %s could not be called: %v", k.stop, err)}
	}
	if res.ExitCode != 0 {
		return &setting.Complaint{Text: exited(k.stop, res)}
	}
	return nil
}

// forget takes away the record of a script, and what was made for it.
func (k kind) forget(s setting.Setting, r *run) error {
	if err := k.host.Files.Remove(k.record(s)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, d := range slices.Backward(r.Made) {
		_ = k.host.Files.Remove(d) // still in use when it is not empty
	}
	_ = k.host.Files.Remove(recordDir)
	return nil
}

// notStarted is true where the kernel did not start the script.
func notStarted(err error) bool {
	var n *host.NotStartedError
	return errors.As(err, &n)
}

func (k kind) makeLibraryDirs() (made []string) {
	for _, d := range libraryDirs {
		if k.host.Files.Mkdir(d, 0o755) == nil {
			made = append(made, d)
		}
	}
	return made
}

// call runs the script with the variables and the mark of r.
func (k kind) call(ctx context.Context, s setting.Setting, r *run, words ...string) (host.Result, error) {
	file, device := k.split(s.Name)
	if err := runnable(k.host, file); err != nil {
		return host.Result{}, err
	}
	argv := append([]string{file}, words...)
	if device != "" {
		argv = append(argv, device)
	}
	return k.host.Exec.Run(ctx, host.Command{Argv: argv, Env: r.Env, Dir: path.Dir(file), Timeout: timeout, EndsWithCaller: true, Mark: r.Mark})
}

// lastLine is the last line that a call wrote, to standard error if it wrote
// there, and at most maxSaid bytes of it.
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

type ignoreMissing struct{}

// IgnoreMissing makes Effect pass ignore_missing to a script's verify, as
// `tuned-adm verify --ignore-missing` does.
func IgnoreMissing(ctx context.Context) context.Context {
	return context.WithValue(ctx, ignoreMissing{}, true)
}

// Effect asks the script's own verify; nothing else can know.
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
		return plugin.Unknown, "its verify could not be called: " + err.Error()
	case res.ExitCode != 0:
		return plugin.Drifted, exited("verify", res)
	}
	return plugin.OK, r.Said
}

func (kind) Equal(a, b setting.Value) bool             { return a.Text == b.Text }
func (kind) Coupled(setting.Setting) []setting.Setting { return nil }
func (kind) Lifetime() setting.Lifetime                { return setting.Runtime }
