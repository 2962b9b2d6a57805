package experiment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// checkOut checks out the commits of --a-ref and --b-ref, each in a temporary directory of its own
// (a git worktree), and builds them. The commands run in the directories that correspond to the
// working directory. p.closing removes them.
func (p *Experiment) checkOut(ctx context.Context, work commands) error {
	prefix, err := git(ctx, p.o.Dir, "rev-parse", "--show-prefix")
	if err != nil {
		return ui.Hinted(ui.Usage, fmt.Errorf("--a-ref: %s is not in a git repository: %w", p.o.Dir, err), "run fettle prove in the repository whose commits are to be compared")
	}
	// The record has the commits, so that --resume measures the same ones.
	for _, ref := range []*string{&p.o.ARef, &p.o.BRef} {
		commit, err := git(ctx, p.o.Dir, "rev-parse", "--verify", "--quiet", "--end-of-options", *ref+"^{commit}")
		if err != nil {
			return ui.Hinted(ui.Usage, fmt.Errorf("no commit %q in this git repository", *ref), "git log --oneline lists the commits; for example: fettle prove --a-ref HEAD~1 --b-ref HEAD -- COMMAND")
		}
		*ref = commit
	}
	left := checkout{Repository: p.o.Dir}
	if left.Top, err = os.MkdirTemp("", checkoutPrefix+"*"); err != nil {
		return err
	}
	p.closing = sync.OnceValue(func() error { return left.remove(context.WithoutCancel(ctx), p.StateDir) })
	if err := left.note(p.StateDir); err != nil {
		return err
	}
	var dirs [2]string
	for i, commit := range []string{p.o.ARef, p.o.BRef} {
		dir := filepath.Join(left.Top, sides[i])
		if _, err := git(ctx, p.o.Dir, "worktree", "add", "--detach", "--quiet", dir, commit); err != nil {
			return err
		}
		dirs[i] = filepath.Join(dir, prefix)
		if _, err := os.Stat(dirs[i]); err != nil {
			return ui.Hinted(ui.Usage, fmt.Errorf("commit %s does not have the directory %s", commit[:12], prefix), "run fettle prove in a directory that both commits have")
		}
		if p.o.Build == "" {
			continue
		}
		p.Screen.Status("building %s", commit[:12])
		err := prove.Shell(ctx, p.o.Build, dirs[i])
		p.Screen.Status("")
		if err != nil {
			return ui.Exit(ui.Failed, fmt.Errorf("--build failed for commit %s: %w", commit[:12], err))
		}
	}
	work.a.Dir, work.b.Dir = dirs[0], dirs[1]
	return nil
}

// checkout is what an experiment on two commits has to remove. It is noted in the state directory, of
// which only one experiment at a time has the lease.
type checkout struct {
	Repository string `json:"repository"` // a directory in it
	Top        string `json:"directory"`  // with a worktree for each side
}

const (
	checkoutFile   = "checkout"
	checkoutPrefix = "fettle-commits-"
)

// sides are the names of the worktrees.
var sides = [2]string{"a", "b"}

func (c checkout) note(stateDir string) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return host.WriteFile(filepath.Join(stateDir, checkoutFile), text, 0o600)
}

// remove removes the worktrees, and then the note.
func (c checkout) remove(ctx context.Context, stateDir string) error {
	var errs []error
	for _, side := range sides {
		dir := filepath.Join(c.Top, side)
		if _, err := os.Lstat(dir); err == nil {
			_, err := git(ctx, c.Repository, "worktree", "remove", "--force", dir)
			errs = append(errs, err)
		}
	}
	if err := errors.Join(append(errs, os.RemoveAll(c.Top))...); err != nil {
		return err
	}
	return os.Remove(filepath.Join(stateDir, checkoutFile))
}

// removeLeft removes what a killed experiment on two commits left behind. The caller has the lease.
func (p *Experiment) removeLeft(ctx context.Context) error {
	file := filepath.Join(p.StateDir, checkoutFile)
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var left checkout
	if err == nil {
		err = json.Unmarshal(text, &left)
	}
	if err == nil && !strings.HasPrefix(filepath.Base(left.Top), checkoutPrefix) {
		err = fmt.Errorf("%q is not a directory of fettle", left.Top)
	}
	if err != nil {
		return ui.Hinted(ui.Failed, fmt.Errorf("cannot read which worktrees an experiment left: %s: %w", file, err), "git worktree list shows them; remove that file")
	}
	if err := left.remove(ctx, p.StateDir); err != nil {
		p.Screen.Say("worktrees of an experiment that was killed: %v", err) // the repository may be gone
	} else {
		p.Screen.Say("removed the worktrees of an experiment that was killed")
	}
	return nil
}

// git runs git in a directory and returns its output without the line's end.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	c := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...)
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) } // git then removes a half-made worktree
	c.WaitDelay = 10 * time.Second
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil && said.Len() > 0 {
		err = errors.New(strings.TrimSpace(said.String()))
	}
	return strings.TrimSuffix(string(out), "\n"), err
}
