package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ssh"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// Limits for audits of other hosts.
const (
	hostTimeout = 2 * time.Minute
	maxAnswer   = 64 << 20 // bytes
	maxSaid     = 64 << 10 // bytes of standard error
	atOnce      = 16
	maxMessages = 32 // of one host
)

// parseHosts parses and checks the hosts of --on.
func parseHosts(words []string) ([]string, error) {
	var out []string
	for _, w := range words {
		name, ok := ssh.ParseHost(w)
		if !ok {
			return nil, ui.Exit(ui.Usage, fmt.Errorf("--on %q: want ssh:HOST or ssh:USER@HOST", w))
		}
		if slices.Contains(out, name) {
			return nil, ui.Exit(ui.Usage, fmt.Errorf("--on names %s twice", name))
		}
		out = append(out, name)
	}
	return out, nil
}

// checkOn runs fettle check on other hosts in parallel, with the system's ssh. The hosts' keys
// must be known. It never asks for passwords.
func (a *app) checkOn(ctx context.Context, names []string, o checkOptions) error {
	hosts, err := parseHosts(o.on)
	if err != nil {
		return err
	}
	if f := a.screen.Format; f == cliutil.OpenMetrics || f == foremanFormat {
		return ui.Instead(ui.Usage, fmt.Errorf("--on does not support the format %s: want table, json, yaml, markdown, html or sarif", f), "", "--output=json")
	}
	flags := []string{"--output", "json"}
	if o.logs == "all" { // an older fettle has no --logs; it reads the ends of logs
		flags = append(flags, "--logs", "all")
	}
	asked := make([]findings.Asked, len(hosts))
	said := make([][]string, len(hosts))
	var wait sync.WaitGroup
	turn := make(chan struct{}, atOnce)
	var answered atomic.Int64
	stop := a.screen.Track(func() ui.Progress {
		n := answered.Load()
		return ui.Progress{Text: internaltext.Sprintf("%d of %s have answered", n, internaltext.Count(len(hosts), "host")), Done: float64(n), All: float64(len(hosts))}
	})
	for i, h := range hosts {
		wait.Go(func() {
			turn <- struct{}{}
			defer func() { <-turn; answered.Add(1) }()
			asked[i] = findings.Asked{Host: h}
			audit, messages, err := checkBySSH(ctx, h, append(slices.Clone(flags), names...))
			if err != nil {
				asked[i].Error = err.Error()
				return
			}
			audit.Machine = h
			asked[i].Audit, said[i] = audit, messages
		})
	}
	wait.Wait()
	stop()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	for i, h := range hosts {
		for _, m := range said[i] {
			a.screen.Say("%s: %s", h, m)
		}
	}
	fleet := findings.NewFleet(time.Now().UTC(), asked)
	return a.printFleet(fleet, o)
}

func (a *app) printFleet(fleet *findings.Fleet, o checkOptions) error {
	var problems []error
	missed := 0
	for _, h := range fleet.Hosts {
		if h.Audit == nil {
			missed++
			problems = append(problems, fmt.Errorf("%s: %s", h.Host, h.Error))
			continue
		}
		if err := h.Audit.Gate(o.failOn); err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", h.Host, err))
		}
	}
	err := errors.Join(problems...)
	switch {
	case missed > 0:
		err = ui.Exit(ui.Failed, err)
	case err != nil:
		err = ui.Exit(ui.GateNotMet, err)
	}
	var failed error
	switch a.screen.Format {
	case ui.JSON, ui.YAML:
		return a.result(fleet, err)
	case cliutil.SARIF:
		failed = findings.SARIF(a.screen.Out, a.version, o.view.All, fleet.Audits()...)
	case ui.Markdown:
		failed = findings.FleetMarkdown(a.screen.Out, fleet, o.view.All)
	default:
		findings.PrintFleet(a.screen, fleet, o.view)
	}
	return errors.Join(failed, err)
}

// checkBySSH audits one host. It also returns the messages of fettle on that host. words are
// flags and names of platforms, without characters that a shell would expand.
func checkBySSH(ctx context.Context, host string, words []string) (*findings.Audit, []string, error) {
	asked := ctx
	ctx, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()
	call, err := ssh.Command(host, append([]string{"fettle", "check"}, words...)...)
	if err != nil {
		return nil, nil, err
	}
	cmd := exec.CommandContext(ctx, call[0], call[1:]...)
	out, said := &bounded{left: maxAnswer, full: cancel}, &bounded{left: maxSaid, full: cancel}
	cmd.Stdout, cmd.Stderr = out, said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 2 * time.Second
	err = cmd.Run()
	last := ssh.LastLine(said.kept.String())
	var exit *exec.ExitError
	switch {
	case asked.Err() != nil:
		return nil, nil, asked.Err()
	case out.over:
		return nil, nil, internaltext.Errorf("the answer is longer than %d MiB; check that the remote command is fettle", maxAnswer>>20)
	case said.over:
		return nil, nil, internaltext.Errorf("the remote command wrote more than %d KiB to standard error: %s", maxSaid>>10, shortened(firstLine(said.kept.String())))
	case ctx.Err() != nil:
		return nil, nil, fmt.Errorf("no answer within %v", hostTimeout)
	case errors.As(err, &exit) && exit.ExitCode() == 127:
		return nil, nil, errors.New("fettle is not in the PATH of ssh sessions on that host; install it, or run fettle facts --archive FILE there and fettle check --root FILE here")
	case errors.As(err, &exit) && exit.ExitCode() == 255:
		return nil, nil, fmt.Errorf("ssh: %s", shortened(sshFailure(said.kept.String())))
	case err != nil && out.kept.Len() == 0 && last == "":
		return nil, nil, fmt.Errorf("the remote fettle check ended without an answer (%w)", err)
	case err != nil && out.kept.Len() == 0:
		return nil, nil, fmt.Errorf("%w: %s", err, shortened(last))
	}
	answer, err := answeredAudit(host, out.kept.Bytes())
	if err != nil {
		if last != "" {
			err = fmt.Errorf("%w: %s", err, shortened(last))
		}
		return nil, nil, err
	}
	return answer, messagesOf(out.kept.Bytes()), nil
}

// answeredAudit returns the audit in the answer of a host, with its own headline. The answer is not
// trusted.
func answeredAudit(host string, text []byte) (*findings.Audit, error) {
	audit, err := findings.ReadBaseline("the answer of "+host, text)
	if err != nil {
		return nil, err
	}
	for i, f := range audit.Findings {
		if !slices.Contains(rule.States, f.State) {
			return nil, fmt.Errorf("the answer of %s has a finding in the unknown state %q", host, f.State)
		}
		audit.Findings[i].Change = ""
	}
	answer := findings.NewAudit(host, audit.Time, audit.Platforms, audit.Findings)
	answer.On, answer.Hostname, answer.Newer, answer.FileSystems, answer.Slow = host, audit.Hostname, audit.Newer, audit.FileSystems, audit.Slow
	if answer.Slow != nil && !answer.Slow.Valid() {
		return nil, fmt.Errorf("the answer of %s has an invalid diagnosis", host)
	}
	answer.Conclude()
	return answer, nil
}

// messagesOf returns the messages of an answer, at most maxMessages.
func messagesOf(answer []byte) []string {
	var doc struct {
		Messages []string `json:"messages"`
	}
	if json.Unmarshal(answer, &doc) != nil {
		return nil
	}
	said := doc.Messages[:min(len(doc.Messages), maxMessages)]
	for i := range said {
		said[i] = shortened(said[i])
	}
	return said
}

// bounded stores the first bytes of a program's output, and calls full if there are more. It
// does not embed bytes.Buffer: io.Copy would use its ReadFrom, which has no limit.
type bounded struct {
	kept bytes.Buffer
	left int
	over bool
	full func()
}

func (b *bounded) Write(p []byte) (int, error) {
	n := min(len(p), b.left)
	b.left -= n
	b.kept.Write(p[:n])
	if n < len(p) && !b.over {
		b.over = true
		b.full()
	}
	return len(p), nil
}

// shortened truncates a line of another host's output.
func shortened(line string) string {
	const most = 500 // bytes
	if len(line) <= most {
		return line
	}
	return strings.ToValidUTF8(line[:most], "") + "..."
}

// sshFailure returns why ssh(1) failed, from its standard error.
func sshFailure(text string) string {
	if why := ssh.FailureReason(text); why != "" {
		return why
	}
	return "failed without a message (exit 255); ssh -v shows more"
}

func firstLine(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(first)
}
