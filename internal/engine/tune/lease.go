package tune

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// leaseFile is locked by an experiment as long as its process or its watchdog lives.
const leaseFile = "experiment"

// ErrLeased says that an experiment is under way already.
var ErrLeased = &ui.Sentinel{
	Text: "an experiment is under way already", Exits: ui.Busy,
	Hint: "fettle status shows what is running; wait until that has ended", Remedy: &ui.Remedy{},
}

// Lease says that this process switches the machine's values to and fro to measure
// them, until the file is closed here and in the watchdog that got it, or End: the
// daemon keeps its hands off meanwhile. There is one at a time: ErrLeased names the
// process that has it.
func Lease(stateDir string) (*os.File, error) { return hold(stateDir, leaseFile, ErrLeased) }

// End gives the lease up, with what is noted in it, whoever else has the file open.
func End(lease *os.File) error {
	return errors.Join(lease.Truncate(0), unix.FcntlFlock(lease.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK}))
}

// notice is what is written in a locked file of the state directory.
type notice struct {
	PID int
	// Restoring is true once the experiment's process is gone and its watchdog is at
	// work.
	Restoring bool
	// Settings are under test.
	Settings []setting.Setting
	// Undo is how a person can undo what the experiment does.
	Undo string
}

// How the lines begin, after the first one, which is the process.
const (
	tested    = "under test: "
	armed     = "undo with: " // the last one, to the end of the file
	restoring = " restoring"
)

func (n notice) write(f *os.File) error {
	text := strconv.Itoa(n.PID)
	if n.Restoring {
		text += restoring
	}
	text += "\n"
	if len(n.Settings) > 0 {
		all, err := json.Marshal(n.Settings)
		if err != nil {
			return err
		}
		text += tested + string(all) + "\n"
	}
	if n.Undo != "" {
		text += armed + n.Undo
	}
	// First the whole text, then its end: there is a notice at every moment.
	_, err := f.WriteAt([]byte(text), 0)
	return errors.Join(err, f.Truncate(int64(len(text))))
}

// noted reads the notice of a file; an empty one where there is none.
func noted(f *os.File) (n notice) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	if err != nil {
		return n
	}
	head, undo, _ := strings.Cut(string(text), armed)
	n.Undo = undo
	for line := range strings.Lines(head) {
		line = strings.TrimSuffix(line, "\n")
		if all, is := strings.CutPrefix(line, tested); is {
			_ = json.Unmarshal([]byte(all), &n.Settings) // one that is being written
			continue
		}
		var pid string
		pid, n.Restoring = strings.CutSuffix(line, restoring)
		n.PID, _ = strconv.Atoi(pid)
	}
	return n
}

func (n notice) String() string {
	switch {
	case n.PID == 0:
		return "another process"
	case n.Restoring:
		return fmt.Sprintf("its watchdog, process %d, which is still undoing the change,", n.PID)
	}
	return fmt.Sprintf("process %d", n.PID)
}

// UnderTest notes in the lease which settings the experiment switches: nobody else's
// transaction gets at them meanwhile.
func UnderTest(lease *os.File, settings []setting.Setting) error {
	n := noted(lease)
	n.Settings = settings
	return n.write(lease)
}

// Restoring notes in the lease that this process, the watchdog, restores the machine.
func Restoring(lease *os.File) error {
	n := noted(lease)
	n.PID, n.Restoring = os.Getpid(), true
	return n.write(lease)
}

// Arm notes in the lease how a person can undo what the experiment does, should both
// it and its watchdog be killed; Unarm removes that. The note stays when the next one
// takes the lease.
func Arm(lease *os.File, how string) error {
	n := noted(lease)
	n.Undo = how
	return errors.Join(n.write(lease), lease.Sync())
}

// Unarm notes that nothing of an experiment is left to be undone.
func Unarm(stateDir string) error {
	err := os.Truncate(filepath.Join(stateDir, leaseFile), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func leaseNotice(stateDir string) notice {
	f, err := openAlive(stateDir, leaseFile, unix.O_RDONLY)
	if err != nil {
		return notice{}
	}
	defer f.Close()
	return noted(f)
}

// Armed is how what an experiment has left can be undone; empty where nothing is left.
// It is asked before the lease is taken.
func Armed(stateDir string) string { return leaseNotice(stateDir).Undo }

// LeftBehind is how the change can be undone that an experiment has left which is not
// under way any more, and whose watchdog has ended too.
func LeftBehind(stateDir string) string {
	if Leased(stateDir) {
		return ""
	}
	return Armed(stateDir)
}

// Leased is true while an experiment is under way, or its watchdog restores the
// machine. It only asks.
func Leased(stateDir string) bool { return held(stateDir, leaseFile) }

// Leaseholder is an experiment that is under way.
type Leaseholder struct {
	PID int `json:"process"` // of the experiment, or of its watchdog
	// Restoring is true where the experiment has ended or was killed, and its watchdog
	// is at work to undo the change.
	Restoring bool `json:"restoring,omitempty"`
	// Undo is the command that undoes the change; empty where the journal does.
	Undo string `json:"undo_command,omitempty"`
}

// Holder is the experiment that is under way; nil for none.
func Holder(stateDir string) *Leaseholder {
	if !Leased(stateDir) {
		return nil
	}
	n := leaseNotice(stateDir)
	return &Leaseholder{n.PID, n.Restoring, n.Undo}
}

// besideExperiment refuses a plan that sets what the experiment of another process has
// under test, and says of every other one that it may disturb it.
func (e *Engine) besideExperiment(p *Plan) error {
	if !p.acts() || !Leased(e.StateDir) {
		return nil
	}
	n := leaseNotice(e.StateDir)
	if n.PID == os.Getpid() {
		return nil
	}
	for _, s := range p.Steps {
		if s.Action == None && s.Verdict != plugin.OK {
			continue
		}
		for _, t := range n.Settings {
			if s.Setting == t || e.couple(s.Setting, t) || e.couple(t, s.Setting) {
				return fmt.Errorf("%w: it has %s under test (%s), so nothing is changed; wait for its end, or interrupt it", ErrLeased, t, n)
			}
		}
	}
	if e.Tell != nil {
		e.Tell(fmt.Sprintf("an experiment is under way (%s): what is changed now may disturb what it measures", n))
	}
	return nil
}

// Confirm keeps every transaction that is on trial and returns their numbers.
func (e *Engine) Confirm(ctx context.Context) ([]int, error) {
	j, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if late := e.expired(j.State); len(late) > 0 {
		// The deadline decides, not the watchdog's speed.
		sub := *e
		sub.Reason, sub.Note = "trial not confirmed in time", ""
		if _, err := sub.undoLocked(context.WithoutCancel(ctx), j, late); err != nil {
			return nil, err
		}
		return nil, errors.New("the time of the trial is over: it has been taken back")
	}
	var ids []int
	for _, t := range j.State.Live() {
		if t.Try == nil || t.Try.Experiment || t.Confirmed || t.Commit == nil {
			continue
		}
		c := journal.Confirm{ID: t.ID, Time: e.Host.Clock.Now().UTC(), Note: e.Note}
		c.User, c.Caller = e.asker(ctx)
		if err := j.Confirm(c); err != nil {
			return ids, err
		}
		e.logConfirm(c)
		ids = append(ids, t.ID)
	}
	if len(ids) == 0 {
		return nil, errors.New("nothing is on trial")
	}
	return ids, nil
}
