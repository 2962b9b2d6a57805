package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
)

// execute runs the program of a command step, without a shell. The values of a host are
// separate words, so none of them can become another command; a value that begins with - would
// be an option of the program, and is refused.
func (h *virtual) execute(s *step, o *outcome) {
	if h.plan.Exec == nil {
		o.end = h.now()
		o.fail(notAllowed, errors.New("command steps need --allow-commands"))
		return
	}
	var words []string
	for i, t := range s.command {
		text := t.text(h.values)
		if _, constant := t.constant(); i > 0 && !constant && len(text) > 0 && text[0] == '-' {
			o.end = h.now()
			o.fail(malformed, fmt.Errorf("word %d of the command: the value %.100q begins with -", i+1, text))
			return
		}
		words = append(words, text)
	}
	got, err := h.plan.Exec.Run(h.ctx, host.Command{Argv: words, Env: h.plan.CommandEnv, Timeout: max(h.plan.Timeout, time.Second), DiesWithCaller: true})
	o.end = h.now()
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		o.fail(string(engine.Timeout), err)
		o.waited = true
		return
	case err != nil:
		o.fail(string(engine.Other), err)
		return
	}
	o.in = int64(len(got.Stdout))
	good := got.ExitCode == 0
	if len(s.expect.exit) > 0 {
		good = slices.Contains(s.expect.exit, got.ExitCode)
	}
	if !good {
		o.fail(notExited, internaltext.Errorf("exit code %d: %.200q", got.ExitCode, got.Stderr))
		return
	}
	h.judge(s, &answer{body: got.Stdout, cut: len(got.Stdout) > maxBody}, o)
}
