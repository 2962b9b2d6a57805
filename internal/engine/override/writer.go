package override

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// ErrNotWatched is returned if the setting was not watched; the last writer is unknown.
var ErrNotWatched = errors.New("writes were not watched")

// ErrNotWritten is returned if the setting was watched but not written.
var ErrNotWritten = errors.New("no writes since watching began")

// Write is one write to a setting while the machine ran.
type Write struct {
	Time time.Time `json:"time"`
	// Process is the program's own name (comm), at most 15 bytes; "" if the process ended before
	// the name was read.
	Process string `json:"process"`
	PID     int    `json:"pid"`
	// Command is the command line, redacted; "" if unknown.
	Command string `json:"command,omitempty"`
	// UID is the process's effective user; null if unknown.
	UID       *int   `json:"uid,omitempty"`
	Parent    string `json:"parent,omitempty"` // the parent's comm
	ParentPID int    `json:"parent_pid,omitempty"`
	Old       string `json:"old"`
	New       string `json:"new"`
	Source    string `json:"source"` // the watcher
	// Cut is true if the watcher truncated the name or value.
	Cut bool `json:"cut,omitempty"`
}

// Who describes the writing process, without command line and parent.
func (w Write) Who() string { w.Command, w.Parent, w.ParentPID = "", "", 0; return w.By() }

// By describes the writing process, with its command line and parent.
func (w Write) By() string {
	var by string
	switch {
	case w.Process != "" && w.Command != "" && w.Command != w.Process:
		by = fmt.Sprintf("%s (process %d: %s)", w.Process, w.PID, w.Command)
	case w.Process != "":
		by = fmt.Sprintf("%s (process %d)", w.Process, w.PID)
	case w.PID > 0:
		by = fmt.Sprintf("process %d (ended before its name could be read)", w.PID)
	default:
		by = "a process outside fettle's PID namespace"
	}
	switch {
	case w.Parent != "":
		by += fmt.Sprintf(", child of %s (%d)", w.Parent, w.ParentPID)
	case w.ParentPID > 0:
		by += fmt.Sprintf(", child of process %d", w.ParentPID)
	}
	return by
}

// Watcher returns the last writes of settings; fettle's daemon is one. If it has no write, it
// returns ErrNotWatched or ErrNotWritten, wrapped with the reason.
type Watcher interface {
	LastWrite(context.Context, setting.Setting) (Write, error)
}

// LastWriter returns the newest write to a resolved setting that any watcher observed since boot.
// Without one it returns ErrNotWatched or ErrNotWritten.
func LastWriter(ctx context.Context, s setting.Setting, watchers ...Watcher) (Write, error) {
	var newest Write
	var reasons []string
	result := ErrNotWatched
	for _, w := range watchers {
		seen, err := w.LastWrite(ctx, s)
		switch {
		case err == nil:
			if newest.Time.IsZero() || seen.Time.After(newest.Time) {
				newest = seen
			}
			result = nil
		case errors.Is(err, ErrNotWatched):
			if _, reason, ok := strings.Cut(err.Error(), ErrNotWatched.Error()+": "); ok {
				reasons = append(reasons, reason)
			}
		case result == nil:
		case errors.Is(err, ErrNotWritten):
			if errors.Is(result, ErrNotWatched) {
				result = err
			}
		default:
			result = err
		}
	}
	if errors.Is(result, ErrNotWatched) && len(reasons) > 0 {
		result = fmt.Errorf("%w: %s", ErrNotWatched, strings.Join(reasons, "; "))
	}
	return newest, result
}

// SysctlLogger is a Watcher for sysctl-logger, SUSE's BPF program at cgroup/sysctl. It reads this
// boot's entries in the system journal with journalctl, which only reads. Only why should use it.
type SysctlLogger struct{ Host *host.Host }

var errNoLogger = fmt.Errorf("%w: sysctl-logger is not installed", ErrNotWatched)

// journalLines is the maximum number of journal entries read, newest first.
const journalLines = 20000

// LastWrite implements Watcher, for sysctls only.
func (l SysctlLogger) LastWrite(ctx context.Context, s setting.Setting) (Write, error) {
	if s.Kind != "sysctl" {
		return Write{}, fmt.Errorf("%w: sysctl-logger records only sysctls", ErrNotWatched)
	}
	p, err := setting.SysctlPath(s.Name)
	if err != nil {
		return Write{}, err
	}
	if _, err := l.Host.Exec.LookPath("journalctl"); err != nil {
		if host.NotFound(err) {
			return Write{}, errNoLogger
		}
		return Write{}, err
	}
	res, err := l.Host.Exec.Run(ctx, host.Command{Argv: []string{
		"journalctl", "--quiet", "--no-pager", "--boot", "--identifier=sysctl-logger", "--reverse",
		"--lines=" + strconv.Itoa(journalLines), "--output=json", "--output-fields=MESSAGE,__REALTIME_TIMESTAMP",
	}, Timeout: 10 * time.Second})
	if err != nil {
		return Write{}, fmt.Errorf("reading the journal: %w", err)
	}
	if len(res.Stdout) == 0 {
		return Write{}, errNoLogger // also without a journal
	}
	return newestWrite(string(res.Stdout), strings.TrimPrefix(p, "/proc/sys/"))
}

// newestWrite returns the write in the first entry for a key; entries are newest first.
func newestWrite(journal, key string) (Write, error) {
	var oldest time.Time
	for line := range strings.Lines(journal) {
		var entry struct {
			Message  json.RawMessage `json:"MESSAGE"`
			Realtime string          `json:"__REALTIME_TIMESTAMP"` // microseconds since 1970
		}
		if json.Unmarshal([]byte(line), &entry) != nil {
			continue
		}
		usec, err := strconv.ParseInt(entry.Realtime, 10, 64)
		if err != nil {
			continue
		}
		at := time.UnixMicro(usec)
		oldest = at
		w, name, ok := parseLoggerLine(journalText(entry.Message))
		if ok && (name == key || w.Cut && strings.HasPrefix(key, name)) {
			w.Time = at
			return w, nil
		}
	}
	if oldest.IsZero() {
		return Write{}, errNoLogger
	}
	return Write{}, fmt.Errorf("%w at %s (sysctl-logger)", ErrNotWritten, oldest.Local().Format("2006-01-02 15:04:05"))
}

// journalText decodes a journal field: a string, or an array of bytes if it is not UTF-8.
func journalText(raw json.RawMessage) string {
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	var octets []int
	if json.Unmarshal(raw, &octets) != nil {
		return ""
	}
	b := make([]byte, 0, len(octets))
	for _, o := range octets {
		b = append(b, byte(o))
	}
	return string(b)
}

// loggerLine matches a line of sysctl-logger.c, handle_ringbuf_event. Older releases print
// "changed"; later ones print "initiated change of" with the parent.
var loggerLine = text.LazyRegexp(`^(.*)\[(\d+)\](?:\((.*)\[(\d+)\]\))? (?:changed|initiated change of) (\S+) from (.*)$`)

// parseLoggerLine returns a write and the sysctl's path below /proc/sys, or false for another
// line.
func parseLoggerLine(text string) (Write, string, bool) {
	text = strings.TrimSuffix(text, "\n")
	body, _, cut := strings.Cut(text, " (note: truncation")
	m := loggerLine().FindStringSubmatch(body)
	if m == nil {
		return Write{}, "", false
	}
	w := Write{Process: m[1], Parent: m[3], Source: "sysctl-logger", Cut: cut}
	var err1, err2 error
	w.PID, err1 = strconv.Atoi(m[2])
	if m[4] != "" {
		w.ParentPID, err2 = strconv.Atoi(m[4])
	}
	i := strings.LastIndex(m[6], " to ")
	if i < 0 || err1 != nil || err2 != nil {
		return Write{}, "", false
	}
	empty := func(s string) string {
		if s == "''" {
			return ""
		}
		return s
	}
	w.Old, w.New = empty(m[6][:i]), empty(m[6][i+len(" to "):])
	return w, m[5], true
}
