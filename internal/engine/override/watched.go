package override

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// WatchSchema names the form of what fettle's daemon leaves in the state
// directory about writes.
const WatchSchema = "fettle/watch/v1"

// WatchFile is its name there.
const WatchFile = "writers"

// MaxWatched bounds how many settings are watched.
const MaxWatched = 4096

// maxWatchFile bounds the file, in bytes: some 1.5 KiB for each setting.
const maxWatchFile = 8 << 20

// Watch is what fettle's daemon has seen of writes since this boot.
type Watch struct {
	Schema string `json:"schema"`
	BootID string `json:"boot_id"`
	// PID and Start are the daemon (proc_pid_stat(5), starttime).
	PID   int    `json:"pid"`
	Start uint64 `json:"start_ticks"`
	// Ended is when the daemon ended; null while it watches, and where it was
	// killed.
	Ended *time.Time `json:"ended,omitempty"`
	// Trouble is why nothing is watched.
	Trouble  string    `json:"trouble,omitempty"`
	Settings []Watched `json:"settings"` // by name
}

// Watched is one setting.
type Watched struct {
	Setting setting.Setting `json:"setting"`
	// Since is from when on no write was missed.
	Since time.Time `json:"since"`
	// Value is what it read when watching began, or after the last write.
	Value setting.Value `json:"value"`
	// Last is the last write by another than fettle, Changed the last one that
	// changed the value, where that is an earlier one.
	Last    *Write `json:"last,omitempty"`
	Changed *Write `json:"changed,omitempty"`
}

// Find returns what is known of a setting.
func (w *Watch) Find(s setting.Setting) (*Watched, bool) {
	if w == nil {
		return nil, false
	}
	i := slices.IndexFunc(w.Settings, func(e Watched) bool { return e.Setting == s })
	if i < 0 {
		return nil, false
	}
	return &w.Settings[i], true
}

// Watching reports whether the daemon that wrote this is running.
func (w *Watch) Watching(h *host.Host) bool {
	if w == nil || w.Ended != nil || w.Trouble != "" {
		return false
	}
	t, err := h.Sched.Task(w.PID)
	return err == nil && t.Start == w.Start
}

// Shown is a value as the record keeps it: without secrets.
func Shown(k setting.Kinds, s setting.Setting, v setting.Value) setting.Value {
	if files := k.KernelFiles(s); len(files) > 0 && !v.Absent {
		v.Text = strings.TrimSuffix(string(host.Redact(files[0], []byte(v.Text))), "\n")
	}
	return v
}

// ReadWatch reads the daemon's record in the state directory. The error is ErrNotWatched if
// there is none of this boot. A record with unexpected content or of another user is
// refused.
func ReadWatch(dir, bootID string) (*Watch, error) {
	p := filepath.Join(dir, WatchFile)
	f, err := os.OpenFile(p, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errNoDaemon
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if sys, ok := st.Sys().(*syscall.Stat_t); !st.Mode().IsRegular() || !ok || int(sys.Uid) != os.Geteuid() {
		return nil, fmt.Errorf("%s is not a plain file of this user: refused", p)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxWatchFile+1))
	if err != nil {
		return nil, err
	}
	w, err := parseWatch(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", p, err)
	}
	if w.BootID != bootID {
		return nil, errNoDaemon
	}
	return w, nil
}

var errNoDaemon = fmt.Errorf("%w: fettle's daemon has not run since this machine was started", ErrNotWatched)

func parseWatch(text []byte) (*Watch, error) {
	if len(text) > maxWatchFile {
		return nil, fmt.Errorf("larger than %d MiB", maxWatchFile>>20)
	}
	var w Watch
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&w); err != nil {
		return nil, fmt.Errorf("not what fettle's daemon writes: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not what fettle's daemon writes: more behind it")
	}
	if w.Schema != WatchSchema || len(w.Settings) > MaxWatched {
		return nil, fmt.Errorf("not what fettle's daemon writes: %q with %d settings", w.Schema, len(w.Settings))
	}
	return &w, nil
}

// Daemon knows what fettle's daemon saw.
type Daemon struct {
	Host     *host.Host
	StateDir string
}

// Read reads what the daemon has left.
func (d Daemon) Read() (*Watch, error) {
	id, err := d.Host.BootID()
	if err != nil {
		return nil, errNoDaemon
	}
	return ReadWatch(d.StateDir, id)
}

// LastWrite implements Watcher.
func (d Daemon) LastWrite(_ context.Context, s setting.Setting) (Write, error) {
	w, err := d.Read()
	if err != nil {
		return Write{}, err
	}
	e, ok := w.Find(s)
	now := "watches"
	switch watching := w.Watching(d.Host); {
	case ok && e.Last != nil:
		return *e.Last, nil
	case w.Trouble != "":
		return Write{}, fmt.Errorf("%w: fettle's daemon cannot: %s", ErrNotWatched, w.Trouble)
	case !ok && watching:
		return Write{}, fmt.Errorf("%w: fettle's daemon watches what the selection in force sets, and this is not of it", ErrNotWatched)
	case !ok:
		return Write{}, fmt.Errorf("%w: fettle's daemon is not running", ErrNotWatched)
	case w.Ended != nil:
		now = "watched until " + w.Ended.Local().Format("2006-01-02 15:04:05")
	case !watching:
		now = "watched until it was killed"
	}
	return Write{}, fmt.Errorf("%w at %s (fettle's daemon %s)", ErrNotWritten, e.Since.Local().Format("2006-01-02 15:04:05"), now)
}
