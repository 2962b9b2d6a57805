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

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

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

// exited says what call ended with which exit code.
func exited(call string, res host.Result) string {
	return fmt.Sprintf("its %s exited with %d%s", call, res.ExitCode, lastLine(res))
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
	return k.host.Exec.Run(ctx, host.Command{Argv: argv, Env: r.Env, Dir: path.Dir(file), Timeout: timeout, DiesWithCaller: true, Tag: r.Mark})
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
