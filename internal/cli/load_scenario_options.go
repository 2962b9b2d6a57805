package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/ladder"
	"fettle.dev/fettle/internal/requests/load/scenario"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/scenarios"
)

type loadScenarioOptions struct {
	hosts, repeat, mostHosts int
	rate                     string
	length, timeout          time.Duration
	seed                     uint64
	prefix, organization     string
	servers, allow, expect   []string
	clients, clientCommands  []string
	hostCerts                string
	allowCommands, dryRun    bool
	ladder, observe          string
	maxRuns                  int
	loadcli.Identity
	given    func(flag string) bool
	recorded string // command line for the record
}

func (o *loadScenarioOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.IntVarP(&o.hosts, "hosts", "n", 0, "number of hosts, such as 100 or 2k (default as in FILE)")
	f.IntVar(&o.repeat, "repeat", 1, "without a rate: how often each host runs the steps")
	f.StringVar(&o.rate, "rate", "", "rate at which hosts arrive, such as 20/s (default as in FILE)")
	f.DurationVar(&o.length, "for", 0, "with a rate: time in which hosts arrive, such as 5m (default as in FILE)")
	cliutil.AlsoCalled(f, "for", "duration", "time")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "time limit of each request, such as 10s")
	f.Uint64Var(&o.seed, "seed", 0, "seed of data and think times (default random; the result has it)")
	f.StringVar(&o.prefix, "prefix", "", "beginning of the name of each host and object (default fettle-)")
	f.StringVar(&o.organization, "organization", "", "value of ${organization}")
	f.IntVar(&o.mostHosts, "most-hosts", 0, "refuse to run more hosts than this")
	f.StringArrayVar(&o.servers, "server", nil, "URL of a server of the scenario, NAME=URL; repeatable (default as in FILE)")
	f.StringArrayVar(&o.allow, "allow", nil, "HOST:PORT or network that may be loaded; repeatable; loopback is always allowed")
	f.StringArrayVar(&o.expect, "expect", nil, "exit with 3 unless this is met: 'STEP p95 < 2s', 'host errors < 1%'; repeatable, in addition to those in FILE")
	f.BoolVar(&o.allowCommands, "allow-commands", false, "run the programs of command steps")
	f.BoolVar(&o.dryRun, "dry-run", false, "check FILE, print what would be sent, and send nothing")
	f.StringVar(&o.hostCerts, "host-certs", "", "directory of NAME.pem, certificate and key of each host; NAME is the host's name")
	f.StringVar(&o.ladder, "ladder", "", "search the highest number of hosts at a time without a failure, in this range, such as 100..1000")
	f.IntVar(&o.maxRuns, "max-runs", ladder.DefaultRuns, "with --ladder: maximum number of runs")
	f.StringVar(&o.observe, "observe", "", "with --ladder: audit this server in four more runs, to name the limit: local, or ssh:HOST with fettle installed")
	f.StringSliceVar(&o.clients, "clients", nil, "machines that run the hosts, each with fettle installed: ssh:A,ssh:B")
	f.StringArrayVar(&o.clientCommands, "client-command", nil, "shell command that starts fettle load worker on another machine; repeatable")
	cliutil.Reads(f, "clients", "ssh:web1.example", sshHosts(false))
	cliutil.Excludes(c, "allow-commands", "commands run only on this machine", "clients", "client-command")
	cliutil.Reads(f, "ladder", "100..1000", func(word string) error { _, err := parseLadder(word); return err })
	cliutil.Reads(f, "observe", "ssh:web1.example", sshHosts(true))
	cliutil.Between(f, "max-runs", 6, 10_000, 60)
	cliutil.Requires(c, "--ladder=100..1000", "max-runs", "observe")
	cliutil.Exclusive(c, "ladder", "hosts")
	cliutil.Exclusive(c, "ladder", "rate")
	cliutil.Reads(f, "rate", "20/s", func(word string) error { _, err := engine.ParseSchedule(word); return err })
	cliutil.Reads(f, "server", "web=http://localhost:8080", func(word string) error { _, _, err := namedServer(word); return err })
	cliutil.Reads(f, "prefix", "loadtest-", hostPrefix)
	cliutil.Reads(f, "expect", "host errors < 1%", func(word string) error {
		if !strings.ContainsAny(word, "<>") {
			return errors.New("want the name of a step or host and a threshold, such as 'host errors < 1%'")
		}
		return nil
	})
	cliutil.Between(f, "hosts", 1, maxHosts, 100)
	cliutil.Between(f, "most-hosts", 1, maxHosts, 100)
	cliutil.Between(f, "repeat", 1, 1_000_000, 10)
	cliutil.Between(f, "for", time.Second, 24*time.Hour, time.Minute)
	cliutil.Between(f, "timeout", time.Millisecond, 10*time.Minute, 10*time.Second)
	o.Identity.Flags(f)
	o.given = f.Changed
	cliutil.Exclusive(c, "repeat", "rate")
	cliutil.Excludes(c, "host-certs", "each host has its own certificate", "cert", "pkcs12", "puppet-ssldir")
	o.Identity.Rules(c)
}

// hostPrefix accepts the beginning of a host name.
func hostPrefix(word string) error {
	if word == "" || strings.ContainsFunc(word, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '.')
	}) || strings.ContainsAny(word[:1], "-.") {
		return errors.New("want lower-case letters, digits, - and .")
	}
	return nil
}

// namedServer parses NAME=URL.
func namedServer(word string) (name, url string, err error) {
	name, url, ok := strings.Cut(word, "=")
	if !ok || name == "" {
		return "", "", errors.New("want NAME=URL, such as web=http://localhost:8080")
	}
	url, err = scenario.BaseURL(url)
	return name, url, err
}

// scenarioText reads a scenario: a file, or the name of a shipped one. from reads the files that
// it names: those of its directory, or shipped ones.
func scenarioText(file string) (name string, text []byte, from func(name string) ([]byte, error), err error) {
	if !strings.ContainsAny(file, "/.") {
		if text, err := fs.ReadFile(scenarios.FS, file+".yaml"); err == nil {
			return file + ".yaml", text, scenarios.FS.ReadFile, nil
		}
	}
	text, err = loadcli.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(file, "/.") {
		return "", nil, nil, ui.Hinted(ui.Usage, fmt.Errorf("%s: no such file, and no shipped scenario of this name%s", file, internaltext.Suggest(file, shippedNames())), "fettle load scenario list shows the shipped scenarios")
	}
	return file, text, func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) && strings.ContainsRune(file, '/') {
			name = filepath.Join(filepath.Dir(file), name)
		}
		return loadcli.ReadFile(name)
	}, err
}

// job returns the run with the contents of all files that it needs.
func (o *loadScenarioOptions) job(file string) (*scenario.Job, error) {
	name, text, from, err := scenarioText(file)
	if err != nil {
		return nil, err
	}
	j := &scenario.Job{File: name, Text: text, Allow: o.allow, Identity: o.Files, Files: map[string][]byte{}, Env: map[string]string{}}
	j.Timeout, j.Prefix, j.Organization, j.HostCerts = o.timeout, o.prefix, o.organization, o.hostCerts
	if j.Prefix == "" {
		j.Prefix = "fettle-"
	}
	j.Seed = o.seed
	if !o.given("seed") {
		j.Seed = mathrand.Uint64N(1 << 53)
	}
	if j.Run, err = newRun(); err != nil {
		return nil, err
	}
	j.Servers = map[string]string{}
	for _, word := range o.servers {
		server, url, err := namedServer(word)
		if err != nil {
			return nil, cliutil.OfOption("--server", err)
		}
		j.Servers[server] = url
	}
	read := func(name string) ([]byte, error) {
		text, err := from(name)
		if err == nil {
			j.Files[name] = text
		}
		return text, err
	}
	s, err := scenario.Parse(name, text, read, func(name string) (string, bool) {
		value, ok := os.LookupEnv(name)
		if ok {
			j.Env[name] = value
		}
		return value, ok
	})
	if err != nil {
		return nil, ui.Hinted(ui.Usage, err, "to check it again, run: "+internaltext.CommandLine([]string{"fettle", "load", "scenario", file, "--dry-run"}))
	}
	if err := o.load(j, s); err != nil {
		return nil, err
	}
	if err := o.identities(j); err != nil {
		return nil, err
	}
	for _, cert := range s.CertFiles(j.Options) {
		if _, err := read(cert); err != nil {
			return nil, err
		}
	}
	return j, nil
}

// newRun returns the identifier of a run. It begins with its time, in microseconds, so that the
// order of names is that of the runs.
func newRun() (string, error) {
	var random [1]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	now := time.Now().UTC()
	return fmt.Sprintf("%s-%05x%x", now.Format("20060102-150405"), now.Nanosecond()/1000, random), nil
}

// load merges the load of the file and the options.
func (o *loadScenarioOptions) load(j *scenario.Job, s *scenario.Scenario) (err error) {
	l := s.Load
	if o.given("rate") {
		if l.Rate, err = engine.ParseSchedule(o.rate); err != nil {
			return cliutil.OfOption("--rate", err)
		}
		if l.For == 0 && !o.given("for") {
			return ui.Retry(ui.Usage, errors.New("--rate needs --for, the time in which hosts arrive"), "", "--for=1m")
		}
		if !o.given("hosts") && s.Load.Rate == 0 {
			l.Hosts = maxHosts
		}
	}
	if o.given("for") {
		if l.Rate == 0 {
			return ui.Without(errors.New("--for needs a rate; without one the hosts run the steps --repeat times"), "--for")
		}
		l.For = o.length
	}
	if o.given("repeat") {
		if l.Rate > 0 {
			return ui.Without(errors.New("--repeat: the scenario has a rate; each host then runs the steps once"), "--repeat")
		}
		l.Repeat = o.repeat
	}
	if o.given("hosts") {
		l.Hosts = o.hosts
	}
	j.Load = l
	return nil
}

// identities adds the certificates to a job.
func (o *loadScenarioOptions) identities(j *scenario.Job) (err error) {
	_, err = engine.Load(o.Files, func(name string) ([]byte, error) {
		text, err := loadcli.ReadFile(name)
		j.Files[name] = text
		return text, err
	}, func() (string, error) {
		j.Passphrase, err = o.Passphrase()
		return j.Passphrase, err
	})
	if err != nil || o.hostCerts == "" {
		return err
	}
	files, err := filepath.Glob(filepath.Join(strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(o.hostCerts), "*.pem"))
	if err != nil {
		return cliutil.OfOption("--host-certs", err)
	}
	if _, err := os.Stat(o.hostCerts); err != nil {
		return cliutil.OfOption("--host-certs", err)
	}
	if j.Load.Hosts == 0 || j.Load.Rate > 0 && !o.given("hosts") {
		j.Load.Hosts = len(files)
	}
	if j.Load.Hosts == 0 || j.Load.Hosts > len(files) {
		return fmt.Errorf("--host-certs: %s has %s NAME.pem, but %s need one each", o.hostCerts, internaltext.Count(len(files), "file"), internaltext.Count(j.Load.Hosts, "host"))
	}
	for _, file := range files[:j.Load.Hosts] {
		if j.Files[o.hostCerts+"/"+filepath.Base(file)], err = loadcli.ReadFile(file); err != nil {
			return cliutil.OfOption("--host-certs", err)
		}
		j.HostNames = append(j.HostNames, strings.TrimSuffix(filepath.Base(file), ".pem"))
	}
	return nil
}

// plan returns the run and its plan.
func (o *loadScenarioOptions) plan(ctx context.Context, file string, resolver engine.Resolver) (*scenario.Job, *scenario.Plan, error) {
	if err := namedOnce("--clients", o.clients); err != nil {
		return nil, nil, err
	}
	j, err := o.job(file)
	if err != nil {
		return nil, nil, err
	}
	p, err := o.planOf(ctx, j, resolver)
	return j, p, err
}

// planOf returns the plan of a job.
func (o *loadScenarioOptions) planOf(ctx context.Context, j *scenario.Job, resolver engine.Resolver) (*scenario.Plan, error) {
	p, err := j.Plan(ctx, resolver)
	if err == nil && len(o.clients)+len(o.clientCommands) > 0 {
		err = p.MayShare()
	}
	if err != nil {
		return nil, err
	}
	for _, text := range o.expect {
		g, err := p.ParseGate(text)
		if err != nil {
			return nil, cliutil.OfOption("--expect", err)
		}
		p.Gates = append(p.Gates, g)
	}
	if len(p.Commands) > 0 && !o.allowCommands {
		return nil, ui.Retry(ui.Refused, fmt.Errorf("%s runs commands on this machine: %s", p.Name, strings.Join(slices.Compact(slices.Clone(p.Commands)), ", ")), "read the file first; then allow it", "--allow-commands")
	}
	return p, nil
}

// common returns what all names, which are sorted, begin with.
func common(names []string) string {
	first, last := names[0], names[len(names)-1]
	n := 0
	for n < min(len(first), len(last)) && first[n] == last[n] {
		n++
	}
	return first[:n]
}

// mayChange refuses a scenario that changes servers without the options that bound it.
func (o *loadScenarioOptions) mayChange(ctx context.Context, p *scenario.Plan) error {
	if o.mostHosts > 0 && p.Hosts() > o.mostHosts {
		return ui.Instead(ui.Refused, internaltext.Errorf("%s: %s, but --most-hosts is %d", p.Name, internaltext.Count(p.Hosts(), "host"), o.mostHosts), "", fmt.Sprintf("--hosts=%d", o.mostHosts))
	}
	if !p.Changes && !p.Creates {
		return nil
	}
	local, err := p.Loopback(ctx)
	if err != nil || local && len(p.Commands) == 0 { // a command may reach any machine
		return err
	}
	var missing []string
	for _, option := range []struct {
		name, value string
	}{{"organization", "NAME"}, {"prefix", "loadtest-"}, {"most-hosts", "100"}} {
		if !o.given(option.name) {
			missing = append(missing, "--"+option.name+"="+option.value)
		}
	}
	if len(missing) == 0 {
		for _, name := range p.HostNames {
			if p.Creates && !strings.HasPrefix(name, o.prefix) { // else the names are those of hosts that exist
				return ui.Instead(ui.Refused, fmt.Errorf("--host-certs: %s.pem: the name does not begin with --prefix %q", name, o.prefix), "", "--prefix="+common(p.HostNames))
			}
		}
		return nil
	}
	return ui.Retry(ui.Refused, fmt.Errorf("%s creates or changes objects on a server that is not this machine; say in which organization, with which prefix, and for how many hosts at most", p.Name), "", missing...)
}
