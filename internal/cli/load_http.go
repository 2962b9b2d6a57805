package cli

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/ui"
)

func loadHTTPCommand(a *app) *cobra.Command {
	var o loadHTTPOptions
	c := &cobra.Command{
		Use: "http URL...", Short: "Load HTTP servers at a fixed rate and measure latency",
		Long: `Sends requests at a fixed rate (--rate), along a ramp or in steps, even if the server
does not respond. Latency counts from the time at which a request was due, so a stall
counts for every delayed request. With --connections N, each of N connections sends the
next request after the last response; --requests limits the requests per connection. The
server's warm-up is detected and not counted. The result says if this machine was too
slow for the rate. Servers other than this machine must be allowed (--allow).

  --find-knee  search for the highest rate that meets the thresholds of --expect
  --observe    record the servers' load
  --clients    generate the load on other machines
  --replay     repeat the requests of a log with the times between them`,
		RunE: func(c *cobra.Command, args []string) error {
			o.recorded = recordedCommand(c, args)
			if o.manifest {
				return a.manifest(o, c.Flags(), args)
			}
			return a.loadHTTP(c.Context(), o, args)
		},
	}
	f := c.Flags()
	f.StringVar(&o.rate, "rate", "", "request rate, such as 500/s or 30/min, or a ramp such as 100/s..1000/s")
	f.StringVar(&o.steps, "steps", "", "request rates, one after the other, each for the time in --for, such as 100/s,200/s,400/s")
	f.IntVarP(&o.connections, "connections", "c", 0, "without --rate: number of connections; each sends one request after the other")
	f.Int64Var(&o.requests, "requests", 0, "with --connections: number of requests per connection; --for is then a time limit (default 1h)")
	f.DurationVar(&o.length, "for", 30*time.Second, "duration of the load, such as 30s or 5m; with --steps: duration of each step; with --replay: maximum duration")
	cliutil.AlsoCalled(f, "for", "duration", "time")
	f.DurationVar(&o.warmUp, "warm-up", 0, "warm up at the first rate for this time, not counted, such as 10s")
	f.IntVar(&o.maxConnections, "max-connections", 1000, "maximum number of connections with --rate")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "time limit of a response, such as 10s")
	f.StringVarP(&o.method, "method", "X", "", "HTTP method (default GET, or POST with --body)")
	f.StringArrayVarP(&o.headers, "header", "H", nil, "a header 'NAME: VALUE', or @FILE with one per line; repeatable")
	f.StringVar(&o.body, "body", "", "body of each request, or @FILE")
	f.StringVar(&o.urls, "urls", "", "file with lines WEIGHT METHOD URL, instead of URLs")
	f.BoolVar(&o.close, "close", false, "open a new connection for each request")
	f.BoolVar(&o.http2, "http2", false, "use HTTP/2")
	f.IntVar(&o.streams, "streams", 1, "with --http2: concurrent requests on each connection")
	f.IntSliceVar(&o.wanted, "ok-status", nil, "status codes of 400 and above that do not count as errors, such as 404,410")
	f.StringArrayVar(&o.allow, "allow", nil, "HOST:PORT or network that may be loaded; repeatable; loopback is always allowed")
	f.StringVar(&o.connectTo, "connect-to", "", "connect to this HOST:PORT instead of the host and port in the URLs")
	f.StringArrayVar(&o.expect, "expect", nil, "exit with 3 unless this is met: 'p99 < 200ms', 'errors < 1%', 'rate > 450/s', 'cpu < 80%'; repeatable")
	f.BoolVar(&o.findKnee, "find-knee", false, "search for the highest rate that meets --expect, starting at --rate; --for is then the time of each stage (default 10s)")
	f.StringSliceVar(&o.observe, "observe", nil, "record CPU, run queue, memory and network of a server: local or ssh:HOST; repeatable")
	f.StringSliceVar(&o.clients, "clients", nil, "machines that generate the load, each with fettle installed: ssh:A,ssh:B")
	f.StringArrayVar(&o.clientCommands, "client-command", nil, "shell command that starts fettle load worker on another machine; repeatable")
	f.StringArrayVar(&o.replay.logs, "replay", nil, "replay the requests of this log against URL; repeatable")
	f.Float64Var(&o.replay.speed, "speed", 1, "with --replay: speed relative to the log; 2 is twice as fast")
	f.StringArrayVar(&o.replay.methods, "replay-method", nil, "with --replay: also send requests with this method, without a body; repeatable (default only GET and HEAD)")
	f.StringVar(&o.replay.format, "replay-format", "", "with --replay: format of the log, as for fettle logs --format")
	f.BoolVar(&o.manifest, "manifest", false, "print a Kubernetes Job that generates the load, and load nothing")
	f.StringVar(&o.image, "image", "", "with --manifest: container image with fettle")
	o.identityFlags(f)
	f.StringVar(&o.resume, "tls-resume", "on", "resume TLS sessions on new connections: on or off")
	o.limits(f)
	o.given = f.Changed
	o.rules(c)
	return c
}

func (a *app) loadHTTP(ctx context.Context, o loadHTTPOptions, urls []string) error {
	switch {
	case o.given("for"):
	case o.findKnee:
		o.length = kneeStage
	case o.given("requests"):
		o.length = requestsRun
	}
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
	title := o.says(plan)
	a.screen.Say("%s", title)
	view := a.loadView(title)
	if rig.Fleet != nil {
		rig.Fleet.Quiet = view.quiet
	}
	result, err := measure(ctx, o, rig, plan, view)
	view.end()
	if err != nil {
		return cutShort(ctx, err, "the connections are closed", nil)
	}
	if len(result.Slices) == 0 {
		return cutShort(ctx, result.Early(), "the connections are closed", nil)
	}
	early, gate := error(nil), gates(result)
	if result.Cut != nil {
		early = errors.Join(ctx.Err(), result.Early())
	}
	return finish(ctx, a, k, result.Text, result, early, "the connections are closed", gate)
}

// measure generates the load, or with --find-knee searches for the highest rate.
func measure(ctx context.Context, o loadHTTPOptions, rig *load.Rig, plan *load.Plan, view *loadView) (*load.Result, error) {
	seed := rand.Uint64N(1 << 53)
	if o.findKnee {
		return rig.FindKnee(ctx, o.kneeRange(plan), seed, view.second, view.stage)
	}
	return rig.Run(ctx, seed, view.second)
}

// gates returns an error with an exit code if a load missed a threshold or was incomplete.
func gates(r *load.Result) error {
	if r.Knee != nil {
		return kneeCode(r)
	}
	failed := r.Failed()
	switch {
	case r.Word == load.Silent:
		return ui.Exit(ui.Failed, errors.New(r.Text))
	case len(failed) == 0:
		return nil
	case r.Word == load.Limited:
		return ui.Exit(ui.Failed, errors.New("thresholds not judged: the load generator was the limit"))
	}
	g := failed[0]
	where := ""
	if g.Stage != "" {
		where = " at " + g.Stage
	}
	return ui.Exit(ui.GateNotMet, fmt.Errorf("threshold %s%s not met: %s", g.Gate, where, g.Text))
}
