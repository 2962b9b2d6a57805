package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/mqtt"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

func loadMQTTCommand(a *app) *cobra.Command {
	var o loadMQTTOptions
	c := &cobra.Command{
		Use: "mqtt BROKER", Short: "Load an MQTT broker with simulated remote execution hosts",
		Long: `Simulates N hosts of pull-based remote execution (MQTT 3.1.1) against a broker, such as
mqtt://localhost:1883 or mqtts://localhost:8883. The hosts connect at --connect-rate,
and each receives the job notification of Foreman's smart proxy. It measures how many
hosts the broker accepts, and when each host is notified. With --pull URL the hosts
fetch their jobs from URL/JOB and post the output to URL/JOB/update. Repeat --setting to
run one round of jobs for each group of proxy settings. Servers other than this machine
must be allowed (--allow).`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.recorded = loadcli.RecordedCommand(c, args)
			return a.loadMQTT(c.Context(), o, args[0])
		},
	}
	f := c.Flags()
	f.IntVarP(&o.hosts, "hosts", "n", 0, "number of hosts, such as 100 or 2k (default one for each file in --host-certs)")
	f.StringVar(&o.connectRate, "connect-rate", "100/s", "rate at which hosts connect, such as 100/s or 6000/min")
	f.StringVar(&o.jobRate, "job-rate", "100/s", "rate at which jobs are sent, such as 100/s")
	f.DurationVar(&o.timeout, "timeout", 10*time.Second, "time limit of connecting, publishing and each HTTP request, such as 10s")
	f.DurationVar(&o.wait, "wait", 0, "end a round of jobs when no host has reported for this time (default 10s; with --pull: 30s longer than --output-every)")
	f.StringVar(&o.pull, "pull", "", "hosts fetch their jobs from URL/JOB and post the output to URL/JOB/update")
	f.DurationVar(&o.every, "output-every", 5*time.Second, "with --pull: time between two output reports of a job, such as 5s")
	f.DurationVar(&o.jobTime, "job-time", 15*time.Second, "with --pull: duration of a job, such as 15s")
	f.StringArrayVar(&o.settings, "setting", nil, "with --pull: run one round of jobs with these proxy settings: 'ttl=5s,resend=15m,limit=200'; repeatable (default the proxy's own, no limit)")
	f.StringArrayVar(&o.allow, "allow", nil, "HOST:PORT or network that may be loaded; repeatable; loopback is always allowed")
	f.StringArrayVar(&o.expect, "expect", nil, "exit with 3 unless each round meets this: 'p99 < 1s' (notifications), 'errors < 1%' (jobs), 'rate > 90/s'; repeatable")
	reads := func(name, example string, read func(word string) error) { cliutil.Reads(f, name, example, read) }
	for _, name := range []string{"connect-rate", "job-rate"} {
		reads(name, "100/s", func(word string) error { _, err := engine.ParseSchedule(word); return err })
	}
	reads("setting", "ttl=5s,resend=15m", func(word string) error { _, err := mqtt.Parse(word); return err })
	reads("expect", "p99 < 1s", func(word string) error { _, err := engine.ParseThreshold(word); return err })
	cliutil.Between(f, "hosts", 1, loadcli.MaxHosts, 100)
	cliutil.Between(f, "timeout", time.Millisecond, 10*time.Minute, 10*time.Second)
	cliutil.Between(f, "wait", time.Second, loadcli.MaxRun, 30*time.Second)
	cliutil.Between(f, "output-every", 100*time.Millisecond, time.Hour, 5*time.Second)
	cliutil.Between(f, "job-time", 100*time.Millisecond, 24*time.Hour, 15*time.Second)
	o.Identity.Flags(f)
	o.given = f.Changed
	f.StringVar(&o.hostCerts, "host-certs", "", "directory of NAME.pem, certificate and key of each host (default all hosts use --cert)")
	o.rules(c)
	return c
}

func (a *app) loadMQTT(ctx context.Context, o loadMQTTOptions, broker string) error {
	plan, err := o.plan(ctx, broker, net.DefaultResolver)
	var not *engine.NotAllowedError
	switch {
	case errors.As(err, &not):
		return ui.Retry(ui.Refused, err, "if the server is yours, allow it with --allow, or its network with --allow 192.0.2.0/24", "--allow="+not.Target)
	case err != nil && ctx.Err() != nil:
		return cutShort(ctx, err, "nothing was sent", nil)
	case err != nil:
		return ui.Exit(ui.Usage, err)
	}
	if err := mayOpen(connectionsOf(plan), internaltext.Count(len(plan.Hosts), "host")); err != nil {
		return err
	}
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	if err := mayMeasure(m); err != nil {
		return err
	}
	prepared, err := mqtt.Prepare(ctx, *plan)
	if err != nil {
		return cutShort(ctx, err, "nothing was measured", nil)
	}
	k := a.keeper(m, mqtt.Kind)
	k.Command = o.recorded
	if err := a.sayMQTT(plan); err != nil {
		return err
	}
	step, stop := a.screen.Steps(0)
	result, err := prepared.Run(ctx, func(text string, done, all time.Duration) { step(text, int(done), int(all)) })
	stop()
	if err != nil {
		return err
	}
	early := error(nil)
	if result.Cut != nil {
		early = ctx.Err()
	}
	return finish(ctx, a, k, result.Text, result, early, "the hosts are disconnected", mqttGates(result))
}

// mqttGates returns an error with an exit code if a load missed a threshold or was incomplete.
func mqttGates(x *mqtt.Result) error {
	failed := x.Failed()
	switch {
	case x.Word == mqtt.Silent:
		return ui.Exit(ui.Failed, errors.New(x.Text))
	case len(failed) == 0:
		return nil
	case x.Word == mqtt.Limited:
		return ui.Exit(ui.Failed, errors.New("thresholds not judged: the load generator was the limit"))
	}
	g, where := failed[0], ""
	if g.Round != "" {
		where = " with " + g.Round
	}
	return ui.Exit(ui.GateNotMet, fmt.Errorf("threshold %s%s not met: %s", g.Gate, where, g.Text))
}
