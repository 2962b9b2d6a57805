package host

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Run runs a program of the machine and returns its standard output. For a non-zero exit code
// it returns an error with the last line that the program printed.
func Run(ctx context.Context, h *Host, argv ...string) (string, error) {
	return RunCommand(ctx, h, Command{Argv: argv})
}

// RunCommand is like Run, but takes a Command.
func RunCommand(ctx context.Context, h *Host, c Command) (string, error) {
	res, err := h.Exec.Run(ctx, c)
	if err != nil {
		return "", err
	}
	if res.ExitCode != 0 {
		return string(res.Stdout), fmt.Errorf("%s: exit %d%s", c, res.ExitCode, lastLine(res))
	}
	return string(res.Stdout), nil
}

// Sleep waits for a time. It returns the cause if ctx ends before.
func Sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// lastLine returns ": " and the last line of a program's error output, or of its standard output.
func lastLine(res Result) string {
	for _, b := range [][]byte{res.Stderr, res.Stdout} {
		if text := strings.TrimSpace(string(b)); text != "" {
			return ": " + text[strings.LastIndexByte(text, '\n')+1:]
		}
	}
	return ""
}

// HasProgram reports whether the machine has the program. It returns false for copies.
func HasProgram(h *Host, program string) bool {
	_, err := h.Exec.LookPath(program)
	return err == nil
}

// HasSystemd reports whether systemd is the running init. It checks the same directory as
// sd_booted(3).
func HasSystemd(h *Host) bool {
	st, err := h.Files.Lstat("/run/systemd/system")
	return err == nil && st.IsDir()
}
