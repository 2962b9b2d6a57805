package host

import (
	"context"
	"fmt"
	"strings"
)

// Run runs a program of the machine and returns its standard output. A non-zero
// exit is an error with the last line that the program said.
func Run(ctx context.Context, h *Host, argv ...string) (string, error) {
	return RunCommand(ctx, h, Command{Argv: argv})
}

// RunCommand is Run with everything a command may have.
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

// lastLine is the last line of a program's complaint, after a colon.
func lastLine(res Result) string {
	for _, b := range [][]byte{res.Stderr, res.Stdout} {
		if text := strings.TrimSpace(string(b)); text != "" {
			return ": " + text[strings.LastIndexByte(text, '\n')+1:]
		}
	}
	return ""
}

// HasProgram is true when the machine has the program. A copied machine has none.
func HasProgram(h *Host, program string) bool {
	_, err := h.Exec.LookPath(program)
	return err == nil
}

// HasSystemd is true when systemd is the running init: sd_booted(3) looks for
// the same directory.
func HasSystemd(h *Host) bool {
	st, err := h.Files.Lstat("/run/systemd/system")
	return err == nil && st.IsDir()
}
