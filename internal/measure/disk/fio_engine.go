package disk

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	internaltext "fettle.dev/fettle/internal/text"
)

// Engine is an installed fio.
type Engine struct {
	Path    string
	Version string
	Host    *host.Host
	// Mark is the tag in the environment of each fio (host.Command).
	Mark string
}

// errNone is returned if fio is not installed.
var errNone = errors.New("fio is not installed")

// oldest is the first version whose JSON contains the latency of syncs.
var oldest = [2]int{3, 5}

var versionNumber = internaltext.LazyRegexp(`^fio-(\d+)\.(\d+)`)

// findFio returns the fio at path, or the one in PATH if path is empty.
func findFio(ctx context.Context, h *host.Host, path string) (*Engine, error) {
	at := path
	if at == "" {
		at = "fio"
	}
	at, err := h.Exec.LookPath(at)
	if errors.Is(err, fs.ErrNotExist) && path == "" {
		return nil, errNone
	}
	if err != nil {
		return nil, fmt.Errorf("--fio: %w", err)
	}
	res, err := h.Exec.Run(ctx, host.Command{Argv: []string{at, "--version"}, Timeout: 10 * time.Second})
	if err != nil {
		return nil, err
	}
	version := strings.TrimSpace(string(res.Stdout))
	m := versionNumber().FindStringSubmatch(version)
	if res.ExitCode != 0 || m == nil {
		return nil, fmt.Errorf("%s is not fio: --version prints %.60q", at, version+last(res.Stderr))
	}
	major, _ := strconv.Atoi(m[1])
	minor, _ := strconv.Atoi(m[2])
	if major < oldest[0] || major == oldest[0] && minor < oldest[1] {
		return nil, fmt.Errorf("%s is version %s; want fio %d.%d or later", at, version, oldest[0], oldest[1])
	}
	return &Engine{Path: at, Version: version, Host: h}, nil
}

// Install returns the command that installs fio on a system with one of these os-release IDs. It
// returns "" for other systems.
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

// Outcome is the result of a job.
type Outcome struct {
	Figures
	// StorageBytes is the number of bytes read from storage. All other read bytes came from a
	// cache of this machine.
	StorageBytes int64
	// Steps has the figures since the start at the end of each second, if requested.
	Steps []Figures
}

// errNoFigures is returned if fio ended without figures.
var errNoFigures = errors.New("fio printed no figures")

// Run runs a job until it ends or until watch returns true. watch is called each second with the
// figures so far; it may be nil.
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
		out.CloseWithError(err) // discards the remaining output
		seen <- err
	}()
	res, err := e.Host.Exec.Run(inner, host.Command{
		Argv: append([]string{e.Path}, j.Args()...), Stdout: in, Tag: e.Mark, DiesWithCaller: true,
		Timeout: bound + time.Minute, // only a fallback
	})
	in.Close()
	unread := <-seen
	said := last(res.Stderr)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case enough:
		// Stopped by watch, possibly within a document.
	case bounded.Err() != nil:
		return nil, hangs(j, bound, err)
	case unread != nil && !errors.Is(unread, io.ErrUnexpectedEOF):
		return nil, fmt.Errorf("%w: %s", unread, cmp.Or(said, "no reason printed"))
	case err != nil:
		return nil, err // killed by another program, or unkillable
	case res.ExitCode != 0:
		return nil, fmt.Errorf("fio failed with exit code %d: %s", res.ExitCode, cmp.Or(said, "no reason printed"))
	case unread != nil:
		return nil, unread
	}
	if len(o.Steps) == 0 {
		return nil, fmt.Errorf("%w: %s", errNoFigures, cmp.Or(said, "no reason printed"))
	}
	o.Figures, o.StorageBytes = o.Steps[len(o.Steps)-1], res.ReadBytes
	if !j.EverySecond {
		o.Steps = nil
	}
	return &o, nil
}

// errHangs is returned if fio does not end.
var errHangs = errors.New("fio hangs")

// allowance is the time that a job may take beyond its runtime: on a slow disk the last requests
// and the final fsync take long. A job without a runtime may take as long as on the slowest disk
// that counts as working.
var allowance = 3 * time.Minute // changed by tests only

const (
	slowestRequest = 50 * time.Millisecond
	slowestBytesPS = 1 << 20
)

// bound returns the time after which a job counts as hanging.
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

// asked describes the size or the expected duration of a job.
func (j Job) asked() string {
	if j.Runtime == 0 {
		return fmt.Sprintf("%d MiB", j.SizeBytes>>20)
	}
	return j.Runtime.String()
}

// hangs returns the error of a job that was stopped at its bound.
func hangs(j Job, bound time.Duration, err error) error {
	unkilled := ""
	if errors.Is(err, host.ErrUnkillable) {
		unkilled = "; fio was killed but has not ended; the space of the test file is freed when fio ends"
	}
	return fmt.Errorf("%w: a job of %s was stopped after %v; the disk does not respond (see dmesg) or other processes keep it busy%s", errHangs, j.asked(), bound.Round(time.Second), unkilled)
}

// last returns the last line of a program's messages.
func last(text []byte) string {
	text = bytes.TrimSpace(text)
	line := text[bytes.LastIndexByte(text, '\n')+1:]
	return string(line[:min(len(line), 300)])
}
