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
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/engine/journal"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/ui"
)

// leaseFile is locked while the process of an experiment or its watchdog runs.
const leaseFile = "experiment"

// ErrLeased is returned while another experiment is in progress.
var ErrLeased = &ui.Sentinel{
	Text: "an experiment is in progress", Exits: ui.Busy,
	Hint: "wait until it ends (see fettle status), or interrupt it", Remedy: &ui.Remedy{},
}

// Lease registers this process as an experiment that switches settings to measure them. verb is the
// verb of fettle that it executes, for messages. The lease ends with End, or when the file is closed
// in this process and in the watchdog that inherited it. The daemon does not write meanwhile. The
// error ErrLeased names the verb and the process that hold the lease.
func Lease(stateDir, verb string) (*os.File, error) {
	return hold(stateDir, leaseFile, notice{Verb: verb})
}

// End releases the lease and erases its notice, even if another process has the file open.
func End(lease *os.File) error {
	return errors.Join(lease.Truncate(0), unix.FcntlFlock(lease.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_UNLCK}))
}

// leasedError is ErrLeased with the verb that has the lease.
type leasedError struct{ name string }

func (e *leasedError) Error() string { return e.name + " is in progress" }
func (e *leasedError) Unwrap() error { return ErrLeased }

// notice is the content of a lock file of the state directory.
type notice struct {
	PID int
	// Verb is the verb of fettle that the experiment's process executes.
	Verb string
	// Restoring is true after the experiment's process has ended, while its watchdog restores the
	// machine.
	Restoring bool
	// Settings are the settings under test.
	Settings []setting.Setting
	// Paused is true while the daemon makes no passes of numa_balance, until it is started again.
	Paused bool
	// Undo is the command that undoes the experiment's change.
	Undo string
}

// The prefixes of the notice's lines. The first line has no prefix; it is the process id.
const (
	executes  = "executes: "
	tested    = "under test: "
	armed     = "undo with: " // last; extends to the end of the file
	restoring = " restoring"
	paused    = "numa_balance is paused"
)

func (n notice) write(f *os.File) error {
	text := strconv.Itoa(n.PID)
	if n.Restoring {
		text += restoring
	}
	text += "\n"
	if n.Verb != "" {
		text += executes + n.Verb + "\n"
	}
	if len(n.Settings) > 0 {
		all, err := json.Marshal(n.Settings)
		if err != nil {
			return err
		}
		text += tested + string(all) + "\n"
	}
	if n.Paused {
		text += paused + "\n"
	}
	if n.Undo != "" {
		text += armed + n.Undo
	}
	// Write the text first, then truncate: the file has a notice at every moment.
	_, err := f.WriteAt([]byte(text), 0)
	return errors.Join(err, f.Truncate(int64(len(text))))
}

// noted reads the notice in a file. An unreadable notice is empty.
func noted(f *os.File) (n notice) {
	text, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<20))
	if err != nil {
		return n
	}
	head, undo, _ := strings.Cut(string(text), armed)
	n.Undo = undo
	for line := range strings.Lines(head) {
		line = strings.TrimSuffix(line, "\n")
		if line == paused {
			n.Paused = true
			continue
		}
		if name, is := strings.CutPrefix(line, executes); is {
			n.Verb = name
			continue
		}
		if all, is := strings.CutPrefix(line, tested); is {
			_ = json.Unmarshal([]byte(all), &n.Settings) // incomplete while being written
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
		return fmt.Sprintf("its watchdog (process %d), which is still undoing the change,", n.PID)
	}
	return fmt.Sprintf("process %d", n.PID)
}

// UnderTest records in the lease the settings that the experiment switches. Other processes'
// transactions may not write them meanwhile.
func UnderTest(lease *os.File, settings []setting.Setting) error {
	n := noted(lease)
	n.Settings = settings
	return n.write(lease)
}

// Restoring records in the lease that this process is the watchdog and restores the machine.
func Restoring(lease *os.File) error {
	n := noted(lease)
	n.PID, n.Restoring = os.Getpid(), true
	return n.write(lease)
}

// Arm records in the lease the command that undoes the experiment's change, in case the experiment
// and its watchdog are killed. Unarm removes the command. A new lease keeps it.
func Arm(lease *os.File, how string) error {
	n := noted(lease)
	n.Undo = how
	return errors.Join(n.write(lease), lease.Sync())
}

// Unarm removes Arm's command after the experiment's change was undone.
func Unarm(stateDir string) error {
	err := os.Truncate(filepath.Join(stateDir, leaseFile), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func leaseNotice(stateDir string) notice { return fileNotice(stateDir, leaseFile) }

func fileNotice(stateDir, name string) notice {
	f, err := openAlive(stateDir, name, unix.O_RDONLY)
	if err != nil {
		return notice{}
	}
	defer f.Close()
	return noted(f)
}

// Armed returns the command that undoes an earlier experiment's change, or "". Call it before
// Lease.
func Armed(stateDir string) string { return leaseNotice(stateDir).Undo }

// LeftBehind returns the command that undoes an experiment's change if the experiment and its
// watchdog have ended, else "".
func LeftBehind(stateDir string) string {
	if Leased(stateDir) {
		return ""
	}
	return Armed(stateDir)
}

// Leased reports whether an experiment is running, or its watchdog is restoring the machine. It
// takes no lock.
func Leased(stateDir string) bool { return held(stateDir, leaseFile) }

// Leaseholder describes an experiment in progress.
type Leaseholder struct {
	PID int `json:"process"` // process id of the experiment or its watchdog
	// Verb is the verb of fettle that the experiment's process executes: prove, search, quiet,
	// bench memory, bench network.
	Verb string `json:"verb,omitempty"`
	// Restoring is true if the experiment has ended or was killed and its watchdog is undoing the
	// change.
	Restoring bool `json:"restoring,omitempty"`
	// Undo is the command that undoes the change; "" if the journal does that.
	Undo string `json:"undo_command,omitempty"`
}

// Holder returns the experiment in progress, or nil.
func Holder(stateDir string) *Leaseholder {
	if !Leased(stateDir) {
		return nil
	}
	n := leaseNotice(stateDir)
	return &Leaseholder{PID: n.PID, Verb: n.Verb, Restoring: n.Restoring, Undo: n.Undo}
}

// Name returns the command that has the lease.
func (x *Leaseholder) Name() string { return ExperimentName(x.Verb) }

// Doing states what the holder does, for messages.
func (x *Leaseholder) Doing() string {
	if x.Restoring {
		return "the watchdog of " + x.Name() + " restores the machine"
	}
	return x.Name() + " is running"
}

// Err returns the ErrLeased that names the command.
func (x *Leaseholder) Err() error { return &leasedError{x.Name()} }

// ExperimentName returns how messages name the experiment of a verb.
func ExperimentName(verb string) string {
	if verb == "" {
		return "an experiment"
	}
	return "fettle " + verb
}

// checkExperiment returns an error if a plan writes settings under test by another process's
// experiment. For any other plan it warns that the plan may disturb the experiment.
func (e *Engine) checkExperiment(p *Plan) error {
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
			if s.Setting == t || slices.Contains(e.Kinds.Coupled(s.Setting), t) || slices.Contains(e.Kinds.Coupled(t), s.Setting) {
				return fmt.Errorf("%w: it switches %s (%s); nothing changed", &leasedError{ExperimentName(n.Verb)}, t, n)
			}
		}
	}
	if e.Tell != nil {
		e.Tell(fmt.Sprintf("%s is running (%s); changes now may distort its measurements", ExperimentName(n.Verb), n))
	}
	return nil
}

// Confirm makes every trial permanent and returns the transactions' numbers.
func (e *Engine) Confirm(ctx context.Context) ([]int, error) {
	j, err := e.lock(ctx)
	if err != nil {
		return nil, err
	}
	defer j.Close()
	if late := e.expired(j.State); len(late) > 0 {
		// The deadline decides, even if the watchdog is late.
		if _, err := e.undoAs(ctx, j, lateTrial, late); err != nil {
			return nil, err
		}
		return nil, errors.New("the trial time is over; the old values are restored")
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
		return nil, ui.Hinted(ui.Failed, errors.New("no trial of fettle tune --try is in progress"), "fettle status shows what is in force; fettle tune PROFILE --try 10m starts a trial")
	}
	return ids, nil
}

// aliveFile is locked while the machine's daemon runs; kill -9 releases the lock.
const aliveFile = "daemon"

func openAlive(stateDir, name string, flags int) (*os.File, error) {
	path := filepath.Join(stateDir, name)
	fd, err := unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return os.NewFile(uintptr(fd), path), nil
}

// ErrAlive is returned to a second daemon that uses the same state directory.
var ErrAlive = &ui.Sentinel{Text: "a fettle daemon runs already", Exits: ui.Refused, Hint: "fettle status shows what it has set"}

// Alive registers this process as the machine's daemon until the file is closed. If there is one,
// ErrAlive names its process.
func Alive(stateDir string) (*os.File, error) { return hold(stateDir, aliveFile, notice{}) }

// passFile is locked while a pass of fettle numa balance moves processes.
const passFile = "numa-balance"

// ErrPass is returned to a second pass.
var ErrPass = &ui.Sentinel{Text: "another pass moves processes between NUMA nodes", Exits: ui.Busy, Hint: "wait until it ends", Remedy: &ui.Remedy{}}

// Pass registers this process as the one that moves processes between NUMA nodes, until the file is
// closed. If there is one, ErrPass names it.
func Pass(stateDir string) (*os.File, error) { return hold(stateDir, passFile, notice{}) }

// PauseBalance records in the daemon's file, which Alive returned, whether numa_balance is paused.
func PauseBalance(alive *os.File, on bool) error {
	n := noted(alive)
	n.Paused = on
	return n.write(alive)
}

// taken returns the error for a lock that another process holds, according to its notice.
func taken(name string, by notice) error {
	switch name {
	case aliveFile:
		return ErrAlive
	case passFile:
		return ErrPass
	}
	return &leasedError{ExperimentName(by.Verb)}
}

// hold locks a file in the state directory and writes the notice of this process. If another
// process holds the lock, it returns an error that says so.
func hold(stateDir, name string, own notice) (*os.File, error) {
	if err := journal.Prepare(stateDir); err != nil {
		return nil, err
	}
	f, err := openAlive(stateDir, name, unix.O_RDWR|unix.O_CREAT)
	if err != nil {
		return nil, err
	}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: unix.F_WRLCK}); err != nil {
		defer f.Close()
		if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
			by := noted(f)
			return nil, fmt.Errorf("%w: %s holds the lock %s", taken(name, by), by, f.Name())
		}
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	// The process id is only for messages; the lock alone decides.
	own.PID, own.Undo = os.Getpid(), noted(f).Undo
	if err := own.write(f); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", f.Name(), err), f.Close())
	}
	return f, nil
}

// Followed reports whether a daemon runs. It takes no lock, which could block the daemon.
func Followed(stateDir string) bool { return held(stateDir, aliveFile) }

func held(stateDir, name string) bool {
	f, err := openAlive(stateDir, name, unix.O_RDONLY)
	if err != nil {
		return false
	}
	defer f.Close()
	// A read lock can be queried without write access, and conflicts with the daemon's write lock.
	lock := unix.Flock_t{Type: unix.F_RDLCK}
	return unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock) == nil && lock.Type != unix.F_UNLCK
}
