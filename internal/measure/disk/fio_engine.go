package disk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
)

// Engine is a fio that can be run.
type Engine struct {
	Path    string
	Version string
	Host    *host.Host
	// Mark is in the environment of each fio (host.Command).
	Mark string
}

// ErrNone is that there is no fio.
var ErrNone = errors.New("fio is not installed")

// oldest is the first version that says how long syncs take, in its JSON.
var oldest = [2]int{3, 5}

var versionNumber = regexp.MustCompile(`^fio-(\d+)\.(\d+)`)

// FindFio finds fio: at a path, or where the administrator's programs are.
func FindFio(ctx context.Context, h *host.Host, path string) (*Engine, error) {
	at := path
	if at == "" {
		at = "fio"
	}
	at, err := h.Exec.LookPath(at)
	if errors.Is(err, fs.ErrNotExist) && path == "" {
		return nil, ErrNone
	}
	if err != nil {
		return nil, fmt.Errorf("--fio: %w", err)
	}
	res, err := h.Exec.Run(ctx, host.Command{Argv: []string{at, "--version"}, Timeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	version := strings.TrimSpace(string(res.Stdout))
	m := versionNumber.FindStringSubmatch(version)
	if res.ExitCode != 0 || m == nil {
		return nil, fmt.Errorf("%s is no fio: --version prints %.60q", at, version+last(res.Stderr))
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < oldest[0] || major == oldest[0] && minor < oldest[1] {
		return nil, fmt.Errorf("%s is %s: want fio %d.%d or later", at, version, oldest[0], oldest[1])
	}
	return &Engine{Path: at, Version: version, Host: h}, nil
}

// Install is the command that installs fio on a system of this ID (os-release(5)).
func Install(ids ...string) string {
	for _, id := range ids {
		switch id {
		case "debian", "ubuntu":
			return "apt-get install fio"
		case "fedora", "rhel", "centos":
			return "dnf install fio"
		case "suse", "opensuse", "sles":
			return "zypper install fio"
		case "arch":
			return "pacman -S fio"
		case "alpine":
			return "apk add fio"
		}
	}
	return ""
}

// Outcome is what came of a job.
type Outcome struct {
	Figures
	// StorageBytes are those that fio had to fetch from storage; what it read
	// besides came from a cache of this machine.
	StorageBytes int64
	// Steps are the figures at the end of each second, from the beginning, where
	// they were asked for.
	Steps []Figures
}

// ErrNoFigures is that fio ended without having measured anything.
var ErrNoFigures = errors.New("fio printed no figures")

// Run runs a job to its end, or until watch, which is called with the figures so far
// each second, says that it is enough. watch may be nil.
func (e *Engine) Run(ctx context.Context, j Job, watch func([]Figures) bool) (*Outcome, error) {
	bound := j.bound()
	bounded, late := context.WithTimeout(ctx, bound)
	defer late()
	inner, stop := context.WithCancel(bounded)
	defer stop()
	out, in := io.Pipe()
	var o Outcome
	seen, enough := make(chan error, 1), false
	go func() {
		err := Read(out, func(f Figures) {
			o.Steps = append(o.Steps, f)
			if watch != nil && !enough && watch(o.Steps) {
				enough = true
				stop()
			}
		})
		if err != nil {
			stop()
		}
		out.CloseWithError(err) // what is still printed has no reader
		seen <- err
	}()
	res, err := e.Host.Exec.Run(inner, host.Command{
		Argv: append([]string{e.Path}, j.Args()...), Stdout: in, Tag: e.Mark, DiesWithCaller: true,
		Timeout: bound + time.Minute, // not before the bound itself
	})
	in.Close()
	unread := <-seen
	said := last(res.Stderr)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case enough:
		// Ended by us, perhaps in the middle of a document.
	case bounded.Err() != nil:
		return nil, hangs(j, bound, err)
	case unread != nil && !errors.Is(unread, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%w: %s", unread, fioOr(said, "it did not say more"))
	case err != nil:
		return nil, err // killed by somebody else, or hanging
	case res.ExitCode != 0:
		return nil, fmt.Errorf("fio failed with exit code %d: %s", res.ExitCode, fioOr(said, "it did not say why"))
	case unread != nil:
		return nil, unread
	}
	if len(o.Steps) == 0 {
		return nil, fmt.Errorf("%w: %s", ErrNoFigures, fioOr(said, "and said nothing"))
	}
	o.Figures, o.StorageBytes = o.Steps[len(o.Steps)-1], res.ReadBytes
	if !j.EverySecond {
		o.Steps = nil
	}
	return &o, nil
}

// ErrHangs is that fio does not end.
var ErrHangs = errors.New("fio hangs")

// What a job may take beside its time: on a slow disk the last requests and the fsync at
// its end take long. What it has to go over once goes on however slow the disk is, down
// to one that nobody would call working.
var allowance = 3 * time.Minute // only the tests set another one

const (
	slowestRequest = 50 * time.Millisecond
	slowestBytesPS = 1 << 20
)

// bound is the time after which a job hangs.
func (j Job) bound() time.Duration {
	b := 2*j.Runtime + allowance
	if j.Runtime == 0 || j.Warm {
		b += time.Duration(j.SizeBytes/slowestBytesPS) * time.Second
	}
	if j.Runtime == 0 && j.BlockBytes > 0 {
		b += time.Duration(j.SizeBytes/j.BlockBytes) * slowestRequest
	}
	return b
}

// asked is what a job was to take, in words.
func (j Job) asked() string {
	if j.Runtime == 0 {
		return fmt.Sprintf("as long as %d MiB take", j.SizeBytes>>20)
	}
	return j.Runtime.String()
}

// hangs is the error of a job that was ended after its bound.
func hangs(j Job, bound time.Duration, err error) error {
	unkilled := ""
	if errors.Is(err, host.ErrUnkillable) {
		unkilled = "; it was killed and does not end, and the room that its file takes is free when it does"
	}
	return fmt.Errorf("%w: it was to take %s, and was ended after %v: the disk does not answer (dmesg), or others keep it busy%s", ErrHangs, j.asked(), bound.Round(time.Second), unkilled)
}

// last is the last line of a program's talk.
func last(text []byte) string {
	text = bytes.TrimSpace(text)
	line := text[bytes.LastIndexByte(text, '\n')+1:]
	return string(line[:min(len(line), 300)])
}

func fioOr(text, other string) string {
	if text == "" {
		return other
	}
	return text
}
