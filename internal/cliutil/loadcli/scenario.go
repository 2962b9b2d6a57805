package loadcli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	mathrand "math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/requests/load/scenario"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/scenarios"
)

// Scenario are the options of a scenario, whichever machines run its hosts.
type Scenario struct {
	Hosts, Repeat, MostHosts int
	Rate                     string
	Length, Timeout          time.Duration
	Seed                     uint64
	Prefix, Organization     string
	Servers, Allow, Expect   []string
	HostCerts                string
	DryRun                   bool
	Identity
	// Program is the name of the program, for hints. Verbs are the names of its commands below
	// load scenario.
	Program string
	Verbs   []string
	// HostsShorthand is the short form of --hosts. ServerFlag is the name of the option with the
	// URLs of servers.
	HostsShorthand, ServerFlag string
	// Given reports whether a flag was given.
	Given func(flag string) bool
}

// MaxHosts is the maximum number of virtual hosts.
const MaxHosts = 100_000

// Flags adds the flags, with the checks of their values.
func (o *Scenario) Flags(f *pflag.FlagSet) {
	f.IntVarP(&o.Hosts, "hosts", o.HostsShorthand, 0, "number of hosts, such as 100 or 2k (default as in FILE)")
	f.IntVar(&o.Repeat, "repeat", 1, "without a rate: how often each host runs the steps")
	f.StringVar(&o.Rate, "rate", "", "rate at which hosts arrive, such as 20/s (default as in FILE)")
	f.DurationVar(&o.Length, "for", 0, "with a rate: time in which hosts arrive, such as 5m (default as in FILE)")
	cliutil.AlsoCalled(f, "for", "duration", "time")
	f.DurationVar(&o.Timeout, "timeout", time.Minute, "time limit of each request, such as 10s")
	f.Uint64Var(&o.Seed, "seed", 0, "seed of data and think times (default random; the result has it)")
	f.StringVar(&o.Prefix, "prefix", "", "beginning of the name of each host and object (default fettle-)")
	f.StringVar(&o.Organization, "organization", "", "value of ${organization}")
	f.IntVar(&o.MostHosts, "most-hosts", 0, "refuse to run more hosts than this")
	f.StringArrayVar(&o.Servers, o.ServerFlag, nil, "URL of a server of the scenario, NAME=URL; repeatable (default as in FILE)")
	f.StringArrayVar(&o.Allow, "allow", nil, "HOST:PORT or network that may be loaded; repeatable; loopback is always allowed")
	f.StringArrayVar(&o.Expect, "expect", nil, "exit with 3 unless this is met: 'STEP p95 < 2s', 'host errors < 1%'; repeatable, in addition to those in FILE")
	f.BoolVar(&o.DryRun, "dry-run", false, "check FILE, print what would be sent, and send nothing")
	f.StringVar(&o.HostCerts, "host-certs", "", "directory of NAME.pem, certificate and key of each host; NAME is the host's name")
	o.Identity.Flags(f)
	o.Given = f.Changed
	cliutil.Reads(f, "rate", "20/s", func(word string) error { _, err := engine.ParseSchedule(word); return err })
	cliutil.Reads(f, o.ServerFlag, "web=http://localhost:8080", func(word string) error { _, _, err := namedServer(word); return err })
	cliutil.Reads(f, "prefix", "loadtest-", hostPrefix)
	cliutil.Reads(f, "expect", "host errors < 1%", func(word string) error {
		if !strings.ContainsAny(word, "<>") {
			return errors.New("want the name of a step or host and a threshold, such as 'host errors < 1%'")
		}
		return nil
	})
	cliutil.Between(f, "hosts", 1, MaxHosts, 100)
	cliutil.Between(f, "most-hosts", 1, MaxHosts, 100)
	cliutil.Between(f, "repeat", 1, 1_000_000, 10)
	cliutil.Between(f, "for", time.Second, 24*time.Hour, time.Minute)
	cliutil.Between(f, "timeout", time.Millisecond, 10*time.Minute, 10*time.Second)
}

// Rules adds checks for flags that exclude each other.
func (o *Scenario) Rules(c *cobra.Command) {
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

// File returns the argument FILE. It is missing if all arguments are.
func (o *Scenario) File(args []string) (string, error) {
	if len(args) == 0 {
		return "", ui.Retry(ui.Usage, errors.New("no scenario given; want a file, or the name of a shipped scenario"), "fettle load scenario list shows the shipped scenarios", "example")
	}
	return args[0], nil
}

// scenarioText reads a scenario: a file, or the name of a shipped one. from reads the files that
// it names: those of its directory, or shipped ones. verbs are suggested too.
func scenarioText(file string, verbs ...string) (name string, text []byte, from func(name string) ([]byte, error), err error) {
	if !strings.ContainsAny(file, "/.") {
		if text, err := fs.ReadFile(scenarios.FS, file+".yaml"); err == nil {
			return file + ".yaml", text, scenarios.FS.ReadFile, nil
		}
	}
	text, err = ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) && !strings.ContainsAny(file, "/.") {
		known := append(ShippedScenarios(), verbs...)
		err := fmt.Errorf("%s: no such file, and no shipped scenario of this name%s", file, internaltext.Suggest(file, known))
		if near := internaltext.Nearest(file, known); near != "" {
			return "", nil, nil, ui.OtherWord(err, file, near)
		}
		return "", nil, nil, ui.Hinted(ui.Usage, err, "fettle load scenario list shows the shipped scenarios")
	}
	return file, text, func(name string) ([]byte, error) {
		if !filepath.IsAbs(name) && strings.ContainsRune(file, '/') {
			name = filepath.Join(filepath.Dir(file), name)
		}
		return ReadFile(name)
	}, err
}

// ShippedScenarios returns the names of the shipped scenarios.
func ShippedScenarios() (out []string) {
	files, _ := fs.Glob(scenarios.FS, "*.yaml") // the pattern is valid
	for _, file := range files {
		out = append(out, strings.TrimSuffix(file, ".yaml"))
	}
	return out
}

// Job returns the run with the contents of all files that it needs.
func (o *Scenario) Job(file string) (*scenario.Job, error) {
	name, text, from, err := scenarioText(file, o.Verbs...)
	if err != nil {
		return nil, err
	}
	j := &scenario.Job{File: name, Text: text, Allow: o.Allow, Identity: o.Files, Files: map[string][]byte{}, Env: map[string]string{}}
	j.Timeout, j.Prefix, j.Organization, j.HostCerts = o.Timeout, o.Prefix, o.Organization, o.HostCerts
	if j.Prefix == "" {
		j.Prefix = "fettle-"
	}
	j.Seed = o.Seed
	if !o.Given("seed") {
		j.Seed = mathrand.Uint64N(1 << 53)
	}
	if j.Run, err = NewRun(); err != nil {
		return nil, err
	}
	j.Servers = map[string]string{}
	for _, word := range o.Servers {
		server, url, err := namedServer(word)
		if err != nil {
			return nil, cliutil.OfOption("--"+o.ServerFlag, err)
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
		return nil, ui.Hinted(ui.Usage, err, "to check it again, run: "+internaltext.CommandLine(append(strings.Fields(o.Program), "load", "scenario", file, "--dry-run")))
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

// NewRun returns the identifier of a run. It begins with its time, in microseconds, so that the
// order of names is that of the runs.
func NewRun() (string, error) {
	var random [1]byte
	if _, err := rand.Read(random[:]); err != nil {
		return "", err
	}
	now := time.Now().UTC()
	return fmt.Sprintf("%s-%05x%x", now.Format("20060102-150405"), now.Nanosecond()/1000, random), nil
}

// load merges the load of the file and the options.
func (o *Scenario) load(j *scenario.Job, s *scenario.Scenario) (err error) {
	l := s.Load
	if o.Given("rate") {
		if l.Rate, err = engine.ParseSchedule(o.Rate); err != nil {
			return cliutil.OfOption("--rate", err)
		}
		if l.For == 0 && !o.Given("for") {
			return ui.Retry(ui.Usage, errors.New("--rate needs --for, the time in which hosts arrive"), "", "--for=1m")
		}
		if !o.Given("hosts") && s.Load.Rate == 0 {
			l.Hosts = MaxHosts
		}
	}
	if o.Given("for") {
		if l.Rate == 0 {
			return ui.Without(errors.New("--for needs a rate; without a rate each host runs the steps --repeat times"), "--for")
		}
		l.For = o.Length
	}
	if o.Given("repeat") {
		if l.Rate > 0 {
			return ui.Without(errors.New("--repeat: the scenario has a rate; each host then runs the steps once"), "--repeat")
		}
		l.Repeat = o.Repeat
	}
	if o.Given("hosts") {
		l.Hosts = o.Hosts
	}
	j.Load = l
	return nil
}

// identities adds the certificates to a job.
func (o *Scenario) identities(j *scenario.Job) (err error) {
	_, err = engine.Load(o.Files, func(name string) ([]byte, error) {
		text, err := ReadFile(name)
		j.Files[name] = text
		return text, err
	}, func() (string, error) {
		j.Passphrase, err = o.Passphrase()
		return j.Passphrase, err
	})
	if err != nil || o.HostCerts == "" {
		return err
	}
	files, err := filepath.Glob(filepath.Join(strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(o.HostCerts), "*.pem"))
	if err != nil {
		return cliutil.OfOption("--host-certs", err)
	}
	if _, err := os.Stat(o.HostCerts); err != nil {
		return cliutil.OfOption("--host-certs", err)
	}
	if j.Load.Hosts == 0 || j.Load.Rate > 0 && !o.Given("hosts") {
		j.Load.Hosts = len(files)
	}
	if j.Load.Hosts == 0 || j.Load.Hosts > len(files) {
		return fmt.Errorf("--host-certs: %s has %s NAME.pem, but %s need one each", o.HostCerts, internaltext.Count(len(files), "file"), internaltext.Count(j.Load.Hosts, "host"))
	}
	for _, file := range files[:j.Load.Hosts] {
		if j.Files[o.HostCerts+"/"+filepath.Base(file)], err = ReadFile(file); err != nil {
			return cliutil.OfOption("--host-certs", err)
		}
		j.HostNames = append(j.HostNames, strings.TrimSuffix(filepath.Base(file), ".pem"))
	}
	return nil
}

// Plan returns the plan of a job, with the thresholds of --expect.
func (o *Scenario) Plan(ctx context.Context, j *scenario.Job, resolver engine.Resolver) (*scenario.Plan, error) {
	p, err := j.Plan(ctx, resolver)
	if err != nil {
		return nil, o.serverHint(err)
	}
	for _, text := range o.Expect {
		g, err := p.ParseGate(text)
		if err != nil {
			return nil, cliutil.OfOption("--expect", err)
		}
		p.Gates = append(p.Gates, g)
	}
	return p, nil
}

// serverHint adds how to give the URL of a server.
func (o *Scenario) serverHint(err error) error {
	var missing *scenario.NoURLError
	if errors.As(err, &missing) {
		return fmt.Errorf("%w; give it with --%s %s=URL", err, o.ServerFlag, missing.Server)
	}
	return err
}

// common returns the longest common prefix of sorted names.
func common(names []string) string {
	first, last := names[0], names[len(names)-1]
	n := 0
	for n < min(len(first), len(last)) && first[n] == last[n] {
		n++
	}
	return first[:n]
}

// MayChange refuses a scenario that changes servers without the options that bound it.
func (o *Scenario) MayChange(ctx context.Context, p *scenario.Plan) error {
	if o.MostHosts > 0 && p.Hosts() > o.MostHosts {
		return ui.Instead(ui.Refused, internaltext.Errorf("%s: %s, but --most-hosts is %d", p.Name, internaltext.Count(p.Hosts(), "host"), o.MostHosts), "", fmt.Sprintf("--hosts=%d", o.MostHosts))
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
		if !o.Given(option.name) {
			missing = append(missing, "--"+option.name+"="+option.value)
		}
	}
	if len(missing) == 0 {
		for _, name := range p.HostNames {
			if p.Creates && !strings.HasPrefix(name, o.Prefix) { // else the names are those of hosts that exist
				return ui.Instead(ui.Refused, fmt.Errorf("--host-certs: %s.pem: the name does not begin with --prefix %q", name, o.Prefix), "", "--prefix="+common(p.HostNames))
			}
		}
		return nil
	}
	return ui.Retry(ui.Refused, fmt.Errorf("%s creates or changes objects on a server that is not this machine; say in which organization, with which prefix, and for how many hosts at most", p.Name), "", missing...)
}
