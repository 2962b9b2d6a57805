package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"fettle.dev/fettle/internal/engine/journal"
)

// events are the sources that wake the daemon. Each is a descriptor in the runtime's poller. Only
// dynamic tuning, numa_balance and --enforce use timers.
type events struct {
	hangup  <-chan os.Signal
	journal <-chan struct{}
	config  <-chan struct{}
	clock   <-chan clockEvent
	devices <-chan []Uevent
	enforce <-chan time.Time
	writes  <-chan struct{} // other programs' writes to values in force
	load    <-chan time.Time
	balance <-chan time.Time

	pulse func(after time.Duration)
	next  func(after time.Duration)
	arm   func(next time.Time)
	files []*os.File
	stop  func()
}

func (ev *events) close() {
	for _, f := range ev.files {
		f.Close()
	}
	ev.stop()
}

// clockEvent is the reason why the clock woke the daemon.
type clockEvent struct {
	set     bool // the clock was set, or the machine was suspended
	resumed bool // the machine was suspended
}

// watch opens the event sources.
func watch(ctx context.Context, d *Daemon, m *Machine) (*events, error) {
	ev := &events{stop: func() {}, arm: func(time.Time) {}}
	// The journal's directory must exist to be watched.
	if err := journal.Prepare(m.Engine.StateDir); err != nil {
		return nil, err
	}
	// A transaction ends by closing the lock file. No other event shows another program's switch.
	locked, f, err := watchDir(m.Engine.StateDir, unix.IN_CLOSE_WRITE, "lock")
	if err != nil {
		return nil, err
	}
	ev.journal, ev.files = locked, append(ev.files, f)
	if d.Schedule != "" {
		dir := filepath.Dir(d.Schedule)
		_ = os.Mkdir(dir, 0o755) // must exist, or the first entry goes unnoticed
		config, f, err := watchDir(dir, unix.IN_CLOSE_WRITE|unix.IN_MOVED_TO|unix.IN_MOVED_FROM|unix.IN_DELETE, filepath.Base(d.Schedule))
		switch {
		case err == nil:
			ev.config, ev.files = config, append(ev.files, f)
		case errors.Is(err, fs.ErrNotExist):
			d.log.say(LevelInfo, "%s does not exist; reload the daemon after creating it", dir)
		default:
			ev.close()
			return nil, err
		}
	}
	clock, f, arm, err := watchClock()
	if err != nil {
		ev.close()
		return nil, err
	}
	ev.clock, ev.arm, ev.files = clock, arm, append(ev.files, f)
	devices, f, err := watchDevices(m.Engine.Host)
	if err != nil {
		d.log.say(LevelWarning, "cannot follow new devices: %v", err)
	} else {
		ev.devices, ev.files = devices, append(ev.files, f)
	}
	ev.load, ev.pulse = timer()
	ev.balance, ev.next = timer()
	if d.Enforce > 0 {
		t := time.NewTicker(d.Enforce)
		ev.enforce, ev.stop = t.C, t.Stop
	}
	return ev, nil
}

// timer returns a stopped timer, and a function that arms it; 0 stops it.
func timer() (<-chan time.Time, func(after time.Duration)) {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t.C, func(after time.Duration) {
		if t.Stop(); after > 0 {
			t.Reset(after)
		}
	}
}

// pollable makes a file from a descriptor, for the runtime's poller.
func pollable(fd int, name string) *os.File { return os.NewFile(uintptr(fd), name) }

// watchDir returns a channel of events about one file name in a directory (inotify(7)). It merges
// simultaneous events.
func watchDir(dir string, mask uint32, name string) (<-chan struct{}, *os.File, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, nil, fmt.Errorf("inotify_init1: %w", err)
	}
	f := pollable(fd, "inotify:"+dir)
	if _, err := unix.InotifyAddWatch(fd, dir, mask|unix.IN_ONLYDIR); err != nil {
		f.Close()
		return nil, nil, &fs.PathError{Op: "watch", Path: dir, Err: err}
	}
	c := make(chan struct{}, 1)
	go func() {
		buf := make([]byte, 16*(unix.SizeofInotifyEvent+unix.NAME_MAX+1))
		for {
			n, err := f.Read(buf)
			if err != nil {
				return // closed
			}
			if !named(buf[:n], name) {
				continue
			}
			select {
			case c <- struct{}{}:
			default:
			}
		}
	}()
	return c, f, nil
}

// named reports whether inotify events contain the name or a queue overflow.
func named(buf []byte, name string) bool {
	for len(buf) >= unix.SizeofInotifyEvent {
		mask, size := native.Uint32(buf[4:]), int(native.Uint32(buf[12:]))
		if size > len(buf)-unix.SizeofInotifyEvent {
			return true
		}
		text := string(buf[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+size])
		if mask&unix.IN_Q_OVERFLOW != 0 || strings.TrimRight(text, "\x00") == name {
			return true
		}
		buf = buf[unix.SizeofInotifyEvent+size:]
	}
	return false
}

// watchClock returns events for the wall-clock times it is armed for, and for every step of that
// clock. A resume from suspend counts as a step (timerfd_create(2), TFD_TIMER_CANCEL_ON_SET;
// timerfd_resume in the kernel's fs/timerfd.c). The boot clock shows the time asleep.
func watchClock() (<-chan clockEvent, *os.File, func(time.Time), error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_REALTIME, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("timerfd_create: %w", err)
	}
	f := pollable(fd, "timerfd")
	raw, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, nil, nil, err
	}
	arm := func(next time.Time) {
		at := unix.ItimerSpec{Value: unix.Timespec{Sec: 1 << 33}} // the year 2242: only clock steps wake
		if !next.IsZero() {
			at.Value = unix.NsecToTimespec(next.UnixNano())
		}
		_ = raw.Control(func(fd uintptr) {
			_ = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME|unix.TFD_TIMER_CANCEL_ON_SET, &at, nil)
		})
	}
	arm(time.Time{})
	c := make(chan clockEvent, 1)
	go func() {
		slept := timeAsleep()
		buf := make([]byte, 8)
		for {
			var e clockEvent
			if _, err := f.Read(buf); err != nil {
				if !errors.Is(err, unix.ECANCELED) {
					return // closed
				}
				e.set = true
			}
			if now := timeAsleep(); now-slept > time.Second {
				e.resumed, slept = true, now
			}
			c <- e
		}
	}()
	return c, f, arm, nil
}

// timeAsleep returns the total time that the machine has been suspended since boot.
func timeAsleep() time.Duration {
	var boot, mono unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &mono)
	return time.Duration(boot.Nano() - mono.Nano())
}
