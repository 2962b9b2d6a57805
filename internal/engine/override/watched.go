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

// WatchSchema names the format of the daemon's record of writes in the state directory.
const WatchSchema = "fettle/watch/v1"

// WatchFile is the record's file name in the state directory.
const WatchFile = "writers"

// MaxWatched is the maximum number of watched settings.
const MaxWatched = 4096

// maxWatchFile is the maximum size of the file, in bytes: about 1.5 KiB per setting.
const maxWatchFile = 8 << 20

// Watch is the record of the writes that fettle's daemon has observed since this boot.
type Watch struct {
	Schema string `json:"schema"`
	BootID string `json:"boot_id"`
	// PID and Start identify the daemon (proc_pid_stat(5), starttime).
	PID   int    `json:"pid"`
	Start uint64 `json:"start_ticks"`
	// Ended is the time at which the daemon ended; null while it runs, and if it was killed.
	Ended *time.Time `json:"ended,omitempty"`
	// Trouble is the reason why nothing is watched, or "".
	Trouble  string    `json:"trouble,omitempty"`
	Settings []Watched `json:"settings"` // sorted by name
}

// Watched is the record of one setting.
type Watched struct {
	Setting setting.Setting `json:"setting"`
	// Since is the time from which no write was missed.
	Since time.Time `json:"since"`
	// Value is the value at the start of watching, or after the last write.
	Value setting.Value `json:"value"`
	// Last is the last write by a program other than fettle. Changed is the last one that changed
	// the value, if that is an earlier write.
	Last    *Write `json:"last,omitempty"`
	Changed *Write `json:"changed,omitempty"`
}

// Find returns the record of a setting, and false if it is not watched.
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

// Watching reports whether the daemon that wrote the record is running.
func (w *Watch) Watching(h *host.Host) bool {
	if w == nil || w.Ended != nil || w.Trouble != "" {
		return false
	}
	t, err := h.Sched.Task(w.PID)
	return err == nil && t.Start == w.Start
}

// Shown returns a value in the record's form: without secrets.
func Shown(k setting.Kinds, s setting.Setting, v setting.Value) setting.Value {
	if files := k.KernelFiles(s); len(files) > 0 && !v.Absent {
		v.Text = strings.TrimSuffix(string(host.Redact(files[0], []byte(v.Text))), "\n")
	}
	return v
}

// ReadWatch reads the daemon's record in the state directory. It returns ErrNotWatched if this
// boot has none. It rejects a record with unexpected content or of another user.
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
		return nil, fmt.Errorf("refused: %s is not a regular file owned by this user", p)
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

var errNoDaemon = fmt.Errorf("%w: fettle's daemon has not run since boot", ErrNotWatched)

func parseWatch(text []byte) (*Watch, error) {
	if len(text) > maxWatchFile {
		return nil, fmt.Errorf("larger than %d MiB", maxWatchFile>>20)
	}
	var w Watch
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&w); err != nil {
		return nil, fmt.Errorf("not written by fettle's daemon: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not written by fettle's daemon: data after its end")
	}
	if w.Schema != WatchSchema || len(w.Settings) > MaxWatched {
		return nil, fmt.Errorf("not written by fettle's daemon: %q with %d settings", w.Schema, len(w.Settings))
	}
	return &w, nil
}

// Daemon is a Watcher based on the record of fettle's daemon.
type Daemon struct {
	Host     *host.Host
	StateDir string
}

// Read reads the daemon's record.
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
	now := "still watches them"
	switch watching := w.Watching(d.Host); {
	case ok && e.Last != nil:
		return *e.Last, nil
	case w.Trouble != "":
		return Write{}, fmt.Errorf("%w: fettle's daemon cannot watch them: %s", ErrNotWatched, w.Trouble)
	case !ok && watching:
		return Write{}, fmt.Errorf("%w: fettle's daemon watches only settings of the active profile", ErrNotWatched)
	case !ok:
		return Write{}, fmt.Errorf("%w: fettle's daemon is not running", ErrNotWatched)
	case w.Ended != nil:
		now = "watched them until " + w.Ended.Local().Format("2006-01-02 15:04:05")
	case !watching:
		now = "watched them until it was killed"
	}
	return Write{}, fmt.Errorf("%w at %s (fettle's daemon %s)", ErrNotWritten, e.Since.Local().Format("2006-01-02 15:04:05"), now)
}
