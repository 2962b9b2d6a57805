package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

// loadHTTPOptions are the options of load http.
type loadHTTPOptions struct {
	loadcli.Options
	observe, clients, clientCommands []string
	replay                           replayOptions
	manifest                         bool
	image                            string
	recorded                         string // command line for the record
	// say is called with a message for each ignored file in a log's directory.
	say func(string)
	// command is the command line, which errors about a log quote.
	command string
}

// maxRequests is the maximum number of requests of one connection.
const maxRequests = 1_000_000_000

func loadHTTPCommand(a *app) *cobra.Command {
	o := loadHTTPOptions{Options: loadcli.Options{Example: []string{"http://localhost:8080/"}}}
	c := &cobra.Command{
		Use: "http URL...", Short: "Load HTTP servers at a fixed rate and measure latency",
		Long: `Sends requests at a fixed rate (--rate), along a ramp or in steps, even if the server
does not respond. Latency counts from the time at which a request was due, so a stall
counts for every delayed request. With --connections N, each of N connections sends the
next request after the last response; --requests limits the requests per connection. The
server's warm-up is detected and not counted. The result says whether this machine was too
slow for the rate. Servers other than this machine must be allowed (--allow).

  --find-knee  search for the highest rate that meets the thresholds of --expect
  --observe    record the servers' load
  --clients    generate the load on other machines
  --replay     repeat the requests of a log with the times between them`,
		RunE: func(c *cobra.Command, args []string) error {
			o.recorded = loadcli.RecordedCommand(c, args)
			if o.manifest {
				return a.manifest(o, c.Flags(), args)
			}
			return a.loadHTTP(c.Context(), o, args)
		},
	}
	f := c.Flags()
	o.Flags(f)
	f.Lookup("for").Usage += "; with --replay: maximum duration"
	f.Lookup("expect").Usage = "exit with 3 unless this is met: 'p99 < 200ms', 'errors < 1%', 'rate > 450/s', 'cpu < 80%'; repeatable"
	f.Int64Var(&o.Requests, "requests", 0, "with --connections: number of requests per connection; --for is then a time limit (default 1h)")
	cliutil.Between[int64](f, "requests", 1, maxRequests, 1000)
	f.StringSliceVar(&o.observe, "observe", nil, "record CPU, run queue, memory and network of a server: local or ssh:HOST; repeatable")
	f.StringSliceVar(&o.clients, "clients", nil, "machines that generate the load, each with fettle installed: ssh:A,ssh:B")
	f.StringArrayVar(&o.clientCommands, "client-command", nil, "shell command that starts fettle load worker on another machine; repeatable")
	f.StringArrayVar(&o.replay.logs, "replay", nil, "replay the requests of this log against URL; repeatable")
	f.Float64Var(&o.replay.speed, "speed", 1, "with --replay: speed relative to the log; 2 is twice as fast")
	f.StringArrayVar(&o.replay.methods, "replay-method", nil, "with --replay: also send requests with this method, without a body; repeatable (default only GET and HEAD)")
	f.StringVar(&o.replay.format, "replay-format", "", "with --replay: format of the log, as for fettle logs --format")
	f.BoolVar(&o.manifest, "manifest", false, "print a Kubernetes Job that generates the load, and load nothing")
	f.StringVar(&o.image, "image", "", "with --manifest: container image with fettle")
	for _, name := range []string{"observe", "clients"} {
		cliutil.Reads(f, name, "ssh:web1.example", sshHosts(name == "observe"))
	}
	cliutil.Between(f, "speed", 0.001, 1000.0, 1)
	o.rules(c)
	return c
}

func (a *app) loadHTTP(ctx context.Context, o loadHTTPOptions, urls []string) error {
	o.Defaults()
	o.say, o.command = a.screen.SayOnce, a.command
	plan, job, err := o.plan(ctx, urls, net.DefaultResolver)
	var not *engine.NotAllowedError
	var own *ui.Error
	switch {
	case errors.As(err, &not):
		return ui.Retry(ui.Refused, err, "if the server is yours, allow it with --allow, or its network with --allow 192.0.2.0/24", "--allow="+not.Target)
	case err != nil && ctx.Err() != nil:
		return cutShort(ctx, err, "nothing was sent", nil)
	case errors.As(err, &own):
		return ui.Exit(own.Code, err) // the log was rejected
	case err != nil:
		return ui.Exit(ui.Usage, err)
	}
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	if err := mayMeasure(m); err != nil {
		return err
	}
	rig, err := a.rig(ctx, o, plan, job)
	if err != nil {
		return cutShort(ctx, err, "nothing was sent", nil)
	}
	defer rig.Close()
	k := a.keeper(m, load.Kind)
	k.Command = o.recorded
	title := o.Title(plan)
	a.screen.Say("%s", title)
	view := loadcli.NewView(a.screen, title)
	if rig.Fleet != nil {
		rig.Fleet.Quiet = view.Quiet
	}
	result, err := measure(ctx, o, rig, plan, view)
	view.End()
	if err != nil {
		return cutShort(ctx, err, "the connections are closed", nil)
	}
	if len(result.Slices) == 0 {
		return cutShort(ctx, result.Early(), "the connections are closed", nil)
	}
	early, gate := error(nil), loadcli.Gated(result)
	if result.Cut != nil {
		early = errors.Join(ctx.Err(), result.Early())
	}
	return finish(ctx, a, k, result.Text, result, early, "the connections are closed", gate)
}

// measure generates the load, or with --find-knee searches for the highest rate.
func measure(ctx context.Context, o loadHTTPOptions, rig *load.Rig, plan *load.Plan, view *loadcli.View) (*load.Result, error) {
	seed := rand.Uint64N(1 << 53)
	if o.FindKnee {
		return rig.FindKnee(ctx, o.Range(plan), seed, view.Second, view.Stage)
	}
	return rig.Run(ctx, seed, view.Second)
}

// rules adds checks for flags that exclude or require each other.
func (o *loadHTTPOptions) rules(c *cobra.Command) {
	o.Rules(c, "replay")
	cliutil.Requires(c, "--connections=10", "requests")
	cliutil.Requires(c, "--replay", "speed", "replay-method", "replay-format")
	cliutil.Requires(c, "--manifest", "image")
	cliutil.Excludes(c, "requests", "use --for instead of --requests", "warm-up", "clients", "client-command")
	cliutil.Excludes(c, "replay", "the log sets the requests and their times", "urls", "method", "body", "warm-up", "find-knee")
	cliutil.Excludes(c, "replay", "a replay has one generator", "clients", "client-command")
	cliutil.Check(c, func([]string) error { return o.checkPlaces() })
}

// plan returns the plan of the load, and a job from which other machines can generate it.
// Errors are usage errors, except for a target that is not allowed.
func (o loadHTTPOptions) plan(ctx context.Context, urls []string, resolver engine.Resolver) (*load.Plan, *load.Job, error) {
	if len(o.observe) == 0 {
		o.Unobserved = func(threshold string) error {
			return ui.Retry(ui.Usage, fmt.Errorf("--expect: %q: no machine is observed; add --observe local or --observe ssh:HOST", threshold), "", "--observe=local")
		}
	}
	r, err := o.Read(urls)
	if err != nil {
		return nil, nil, err
	}
	if len(o.replay.logs) > 0 {
		if r.Replay, r.Job.Asked, err = o.replay.read(ctx, urls, o); err != nil {
			return nil, nil, err
		}
	}
	p, err := o.Plan(ctx, r, resolver)
	return p, r.Job, err
}

// enoughFiles returns an error if this process may not open files for all connections.
func enoughFiles(p *load.Plan) error {
	each := len(p.Set.Origins)
	return mayOpen(p.Connections*each, text.Sprintf("%s to %d servers", text.Count(p.Connections, "connection"), each))
}

// mayOpen returns an error if this process may not open that many connections in addition to
// its own files. what describes the connections.
func mayOpen(connections int, what string) error {
	limit, err := engine.OpenFiles()
	if err != nil {
		return err
	}
	if need := uint64(connections) + engine.OwnFiles; need > limit {
		return &ui.Error{Code: ui.Refused, Err: text.Errorf("%s need %s, but the limit of this process is %d", what, text.Count(need, "open file"), limit),
			Hint: "or use fewer connections", Remedy: &ui.Remedy{Before: fmt.Sprintf("sudo prlimit --pid $$ --nofile=%d", need)}}
	}
	return nil
}
