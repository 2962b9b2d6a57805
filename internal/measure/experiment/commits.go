package experiment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/ui"
)

// checkOut checks out the commits of --a-ref and --b-ref, each in a temporary directory of its own
// (a git worktree), and builds them. It returns the directories that correspond to the working
// directory. p.closing removes them.
func (p *Experiment) checkOut(ctx context.Context) (a, b string, err error) {
	prefix, err := git(ctx, p.o.Dir, "rev-parse", "--show-prefix")
	if err != nil {
		return "", "", ui.Hinted(ui.Usage, fmt.Errorf("--a-ref: %s is not in a git repository: %w", p.o.Dir, err), "run fettle prove in the repository whose commits are to be compared")
	}
	// The record has the commits, so that --resume measures the same ones.
	for _, ref := range []*string{&p.o.ARef, &p.o.BRef} {
		commit, err := git(ctx, p.o.Dir, "rev-parse", "--verify", "--quiet", "--end-of-options", *ref+"^{commit}")
		if err != nil {
			return "", "", ui.Exit(ui.Usage, fmt.Errorf("no commit %q in this git repository", *ref))
		}
		*ref = commit
	}
	top, err := os.MkdirTemp("", "fettle-commits-*")
	if err != nil {
		return "", "", err
	}
	var added []string
	p.closing = func() error {
		var errs []error
		for _, dir := range added {
			_, err := git(context.WithoutCancel(ctx), p.o.Dir, "worktree", "remove", "--force", dir)
			errs = append(errs, err)
		}
		return errors.Join(append(errs, os.RemoveAll(top))...)
	}
	var dirs [2]string
	for i, commit := range []string{p.o.ARef, p.o.BRef} {
		dir := filepath.Join(top, []string{"a", "b"}[i])
		if _, err := git(ctx, p.o.Dir, "worktree", "add", "--detach", "--quiet", dir, commit); err != nil {
			return "", "", err
		}
		added = append(added, dir)
		dirs[i] = filepath.Join(dir, prefix)
		if _, err := os.Stat(dirs[i]); err != nil {
			return "", "", ui.Exit(ui.Usage, fmt.Errorf("commit %s does not have the directory %s", commit[:12], prefix))
		}
		if p.o.Build == "" {
			continue
		}
		p.Screen.Status("building %s", commit[:12])
		err := prove.Shell(ctx, p.o.Build, dirs[i])
		p.Screen.Status("")
		if err != nil {
			return "", "", ui.Exit(ui.Failed, fmt.Errorf("--build failed for commit %s: %w", commit[:12], err))
		}
	}
	return dirs[0], dirs[1], nil
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
