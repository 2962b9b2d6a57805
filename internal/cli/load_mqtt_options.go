package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/mqtt"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

type loadMQTTOptions struct {
	hosts                         int
	connectRate, jobRate          string
	timeout, wait, every, jobTime time.Duration
	pull, hostCerts               string
	settings, allow, expect       []string
	loadcli.Identity
	given    func(flag string) bool
	recorded string // command line for the record
}

// maxSettings is the maximum number of --setting values.
const maxSettings = 100

// rules adds checks for flags that exclude or require each other.
func (o *loadMQTTOptions) rules(c *cobra.Command) {
	cliutil.Check(c, func([]string) error {
		switch {
		case o.hosts == 0 && o.hostCerts == "":
			return ui.Retry(ui.Usage, errors.New("number of hosts missing; want --hosts or --host-certs"), "", "--hosts=100")
		case len(o.settings) > maxSettings:
			return ui.Without(internaltext.Errorf("--setting: %s; at most %d allowed", internaltext.Count(len(o.settings), "value"), maxSettings), "--setting")
		case o.pull != "" && o.given("wait") && o.wait < min(o.every, o.jobTime):
			return ui.Without(fmt.Errorf("--wait %v: too short; the hosts send output only every %v", o.wait, min(o.every, o.jobTime)), "--wait")
		}
		return nil
	})
	cliutil.Requires(c, "--pull", "output-every", "job-time", "setting")
	o.Identity.Rules(c)
}

// plan returns the plan of the load. Its errors are usage errors, except for a target that is
// not allowed.
func (o *loadMQTTOptions) plan(ctx context.Context, broker string, resolver engine.Resolver) (*mqtt.Plan, error) {
	p := &mqtt.Plan{Timeout: o.timeout, Wait: o.wait}
	var err error
	if p.ConnectRate, err = engine.ParseSchedule(o.connectRate); err != nil {
		return nil, cliutil.OfOption("--connect-rate", err)
	}
	if p.JobRate, err = engine.ParseSchedule(o.jobRate); err != nil {
		return nil, cliutil.OfOption("--job-rate", err)
	}
	for _, text := range o.expect {
		g, err := engine.ParseThreshold(text)
		if err != nil {
			return nil, cliutil.OfOption("--expect", err)
		}
		if g.Observed() {
			return nil, ui.Instead(ui.Usage, fmt.Errorf("--expect: %q: want p50 to p99.9, mean, max, errors or rate, of notifications or jobs", text), "", "--expect=p99 < 1s")
		}
		p.Gates = append(p.Gates, g)
	}
	for _, text := range o.settings {
		s, err := mqtt.Parse(text)
		if err != nil {
			return nil, cliutil.OfOption("--setting", err)
		}
		p.Settings = append(p.Settings, s)
	}
	if len(p.Settings) == 0 {
		p.Settings = []mqtt.Settings{mqtt.Defaults}
	}
	if p.Broker, err = brokerURL(broker); err != nil {
		return nil, err
	}
	secured := p.Broker.Scheme == "mqtts" || strings.HasPrefix(o.pull, "https:")
	if !secured && (o.Files != engine.Files{} || o.hostCerts != "") {
		return nil, ui.Without(errors.New("certificates need a URL with mqtts:// or https://"), append(loadcli.IdentityFlags, "--host-certs")...)
	}
	if err := o.identities(p, secured); err != nil {
		return nil, err
	}
	allowed, err := engine.ParseAllowed(ctx, o.allow, resolver)
	if err != nil {
		return nil, cliutil.OfOption("--allow", err)
	}
	if p.Sockets, err = allowed.Find(ctx, p.Broker.Host, resolver); err != nil {
		return nil, err
	}
	if p.Pull, err = o.pulled(ctx, allowed, resolver); err != nil {
		return nil, err
	}
	if p.Wait == 0 {
		p.Wait = 10 * time.Second
		if p.Pull != nil {
			p.Wait = 30*time.Second + o.every
		}
	}
	return p, nil
}

// brokerURL parses the URL of a broker, and adds the default port.
func brokerURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil:
		return nil, err
	case u.User != nil: // checked first: errors that quote the URL would reveal the password
		return nil, errors.New("a URL with a password: remote execution hosts authenticate with certificates; leave the password out")
	case u.Scheme != "mqtt" && u.Scheme != "mqtts":
		return nil, fmt.Errorf("%q: want a broker such as mqtt://localhost:1883, or mqtts://localhost:8883 for TLS", text)
	case u.Hostname() == "" || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, fmt.Errorf("%q: want only host and port, such as mqtt://localhost:1883", text)
	}
	if u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), map[string]string{"mqtt": "1883", "mqtts": "8883"}[u.Scheme])
	}
	u.Path = ""
	return u, nil
}

// identities adds the hosts to the plan, with the certificates of the hosts and the proxy.
func (o *loadMQTTOptions) identities(p *mqtt.Plan, secured bool) error {
	var shared *tls.Config
	if secured {
		var err error
		if shared, err = o.Config(); err != nil {
			return err
		}
		if p.Broker.Scheme == "mqtts" {
			p.TLS = shared
		}
	}
	if o.hostCerts == "" {
		for i := range o.hosts {
			p.Hosts = append(p.Hosts, mqtt.Host{Name: fmt.Sprintf("fettle-%06d", i+1), TLS: shared})
		}
		return nil
	}
	files, err := filepath.Glob(filepath.Join(strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(o.hostCerts), "*.pem"))
	if err != nil {
		return cliutil.OfOption("--host-certs", err)
	}
	if _, err := os.Stat(o.hostCerts); err != nil {
		return cliutil.OfOption("--host-certs", err)
	}
	switch {
	case o.hosts == 0:
		o.hosts = len(files)
	case o.hosts > len(files):
		return fmt.Errorf("--host-certs: %s has %s NAME.pem, but %s need one each", o.hostCerts, internaltext.Count(len(files), "file"), internaltext.Count(o.hosts, "host"))
	}
	if o.hosts == 0 || o.hosts > loadcli.MaxHosts {
		return internaltext.Errorf("--host-certs: %s has %s NAME.pem; want 1 to %d", o.hostCerts, internaltext.Count(len(files), "file"), loadcli.MaxHosts)
	}
	for _, file := range files[:o.hosts] {
		name := strings.TrimSuffix(filepath.Base(file), ".pem")
		if strings.ContainsAny(name, "+#\x00") || name == "" {
			return fmt.Errorf("--host-certs: %s: this host name cannot be part of an MQTT topic", file)
		}
		own, err := engine.Load(engine.Files{Cert: file, Key: file}, loadcli.ReadFile, nil)
		if err != nil {
			return cliutil.OfOption("--host-certs", err)
		}
		own.RootCAs = shared.RootCAs
		p.Hosts = append(p.Hosts, mqtt.Host{Name: name, TLS: own})
	}
	return nil
}

// pulled returns the server of the jobs, or nil without --pull.
func (o *loadMQTTOptions) pulled(ctx context.Context, allowed *engine.Allowed, resolver engine.Resolver) (*mqtt.Pull, error) {
	if o.pull == "" {
		return nil, nil
	}
	set, err := engine.Make(ctx, []engine.Asked{{Weight: 1, Method: "GET", URL: o.pull}}, engine.Common{}, allowed, resolver)
	if err != nil {
		var not *engine.NotAllowedError
		if errors.As(err, &not) {
			return nil, err
		}
		return nil, cliutil.OfOption("--pull", err)
	}
	base := set.Requests[0]
	if base.URL.RawQuery != "" {
		return nil, errors.New("--pull: want a URL without a query, because the job's name is appended to it")
	}
	base.URL.Path = strings.TrimRight(base.URL.Path, "/")
	return &mqtt.Pull{Base: base, Sockets: set.Origins[0].Sockets, Name: set.Origins[0].Name, Every: o.every, JobTime: o.jobTime}, nil
}

// connectionsOf returns the maximum number of concurrent connections of a plan.
func connectionsOf(p *mqtt.Plan) int {
	n := len(p.Hosts)
	if p.Pull == nil {
		return n
	}
	most := 0
	for _, s := range p.Settings {
		under := n
		if s.Limit > 0 {
			under = min(n, 2*s.Limit) // includes jobs that were given up but are still being fetched
		}
		most = max(most, under)
	}
	return n + most
}

// sayMQTT prints the planned load and its minimum duration.
func (a *app) sayMQTT(p *mqtt.Plan) error {
	n := float64(len(p.Hosts))
	at := func(rate float64) time.Duration { return time.Duration(n / rate * float64(time.Second)) }
	least := at(p.ConnectRate)
	for _, s := range p.Settings {
		round := at(p.JobRate)
		if p.Pull != nil {
			if s.Limit > 0 {
				round = max(round, time.Duration(n/float64(s.Limit)*float64(p.Pull.JobTime)))
			}
			round += p.Pull.JobTime
		}
		least += round
	}
	limit, err := engine.OpenFiles()
	if err != nil {
		return err
	}
	rounds := "one job for each host"
	if len(p.Settings) > 1 {
		rounds = fmt.Sprintf("%s of one job for each host", internaltext.Count(len(p.Settings), "round"))
	}
	a.screen.Say("connecting %s hosts, then %s; ends at %s or later", unit.Thousands(uint64(len(p.Hosts))), rounds, time.Now().Add(least).Local().Format("15:04:05"))
	a.screen.Say("uses up to %s of %s allowed open files", unit.Thousands(uint64(connectionsOf(p)+engine.OwnFiles)), unit.Thousands(limit))
	return nil
}
