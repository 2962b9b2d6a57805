package scenario

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/requests/load/engine"
	internaltext "fettle.dev/fettle/internal/text"
)

// Options are the settings of a run that are not in the file.
type Options struct {
	Load         LoadSpec          `json:"load"`
	Seed         uint64            `json:"seed"`
	Run          string            `json:"run"`
	Prefix       string            `json:"prefix"`
	Organization string            `json:"organization"`
	Servers      map[string]string `json:"servers"` // by name
	Timeout      time.Duration     `json:"timeout_ns"`
	// StopWhenFailed ends a run as soon as the remaining hosts cannot make it pass any more.
	StopWhenFailed bool `json:"stop_when_failed,omitempty"`
	// HostNames are the names of the hosts, if not the prefix and a number.
	HostNames []string `json:"host_names,omitempty"`
	// HostCerts is the directory of NAME.pem, certificate and key of each host.
	HostCerts string `json:"host_certs,omitempty"`
}

// Job describes a run completely: another process needs no further files, environment or
// resolver. It may contain keys and passwords. A process runs the hosts First, First+Step, ...,
// counted from 0.
type Job struct {
	File string `json:"file"`
	Text []byte `json:"text"`
	Options
	Env   map[string]string `json:"env"`
	Files map[string][]byte `json:"files"`
	// Allow lists the allowed servers in addition to loopback; Names holds resolved names.
	Allow      []string                `json:"allow"`
	Names      map[string][]netip.Addr `json:"names"`
	Identity   engine.Files            `json:"identity"`
	Passphrase string                  `json:"passphrase"`
	First      int                     `json:"first"`
	Step       int                     `json:"step"`
	// NoLoopback excludes loopback: each generator is a pod of its own.
	NoLoopback bool `json:"no_loopback,omitempty"`
}

// Resolved returns the part of a job that is known only once the generators run: the addresses
// of all names, and the number of generators. A worker that has the job itself in a file (Stored)
// needs nothing else.
func (j *Job) Resolved(generators int) any {
	return struct {
		Names map[string][]netip.Addr `json:"names"`
		Step  int                     `json:"step"`
	}{j.Names, generators}
}

// Plan is a run that can start: the scenario, its settings and who may be loaded.
type Plan struct {
	*Scenario
	Options
	Allowed  *engine.Allowed
	Resolver engine.Resolver
	// Exec runs the programs of command steps; nil if they are not allowed.
	Exec host.Exec
	// CommandEnv is added to their minimal environment.
	CommandEnv []string
	// Journal records the created objects; nil if the scenario creates none.
	Journal *Journal

	first, step int
	// shared holds the values of the setup, if another process has run it.
	shared []sharedValue
	tls    *tls.Config
	read   func(name string) ([]byte, error)
}

// read returns a file of the job, or an error if the job does not have it.
func (j *Job) read(name string) ([]byte, error) {
	text, ok := j.Files[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return text, nil
}

// Parse parses the scenario of the job.
func (j *Job) Parse() (*Scenario, error) {
	return Parse(j.File, j.Text, j.read, func(name string) (string, bool) { text, ok := j.Env[name]; return text, ok })
}

// Plan returns the run of a job. Names are resolved once, by resolver.
func (j *Job) Plan(ctx context.Context, resolver engine.Resolver) (*Plan, error) {
	s, err := j.Parse()
	if err != nil {
		return nil, err
	}
	if j.Step > 1 {
		if err := s.MayShare(); err != nil {
			return nil, err
		}
	}
	p := &Plan{Scenario: s, Options: j.Options, first: j.First, step: max(1, j.Step), read: j.read, Resolver: &recorded{ask: resolver, names: &j.Names}}
	if j.Identity.CA == "" {
		j.Identity.CA = s.identity.ca
	}
	if p.tls, err = engine.Load(j.Identity, j.read, func() (string, error) { return j.Passphrase, nil }); err != nil {
		return nil, err
	}
	if p.Allowed, err = engine.ParseAllowed(ctx, j.Allow, p.Resolver); err != nil {
		return nil, fmt.Errorf("--allow: %w", err)
	}
	p.Allowed.NoLoopback = j.NoLoopback
	return p, p.checkServers(ctx)
}

// MayShare returns an error if the hosts of a scenario cannot run in other processes.
func (s *Scenario) MayShare() error {
	for _, one := range s.all() {
		switch {
		case one.once:
			return one.at.errorf("step %q: with \"once\" all hosts wait for each other, which is impossible with several generators; use one generator", one.name)
		case one.command != nil:
			return one.at.errorf("step %q: commands run only on this machine, but several generators run elsewhere", one.name)
		}
	}
	return nil
}

// checkServers returns an error for servers without a URL, and for ones that are not allowed.
func (p *Plan) checkServers(ctx context.Context) error {
	known := map[string]bool{}
	for _, s := range p.Scenario.Servers {
		known[s.Name] = true
		base, err := BaseURL(p.serverURL(s))
		if p.serverURL(s) == "" {
			return &NoURLError{s.Name, s.at.errorf("server %s has no URL", s.Name)}
		} else if err != nil {
			return fmt.Errorf("server %s: %w", s.Name, err)
		}
		if _, err := p.Allowed.Find(ctx, hostPort(base), p.Resolver); err != nil {
			return err
		}
	}
	for _, s := range p.all() {
		if err := p.checkConstant(ctx, s); err != nil {
			return err
		}
	}
	for name := range p.Options.Servers {
		if !known[name] {
			return fmt.Errorf("server %s: the scenario has no server of this name%s", name, suggest(name, known))
		}
	}
	return nil
}

// checkConstant returns an error for a URL without values whose server is not allowed. Other URLs
// are checked when their values are known.
func (p *Plan) checkConstant(ctx context.Context, s *step) error {
	if s.http == nil {
		return nil
	}
	text, constant := s.http.url.constant()
	if !constant {
		return nil
	}
	origin, _, err := split([]byte(text))
	if err != nil {
		return s.at.errorf("step %q: %v", s.name, err)
	}
	_, err = p.Allowed.Find(ctx, hostPort(string(origin)), p.Resolver)
	return err
}

func (p *Plan) serverURL(s Server) string {
	if text, ok := p.Options.Servers[s.Name]; ok {
		return strings.TrimRight(text, "/")
	}
	return s.URL
}

// NoURLError is returned for a server without a URL in the file and in the options.
type NoURLError struct {
	Server string
	err    error
}

func (e *NoURLError) Error() string { return e.err.Error() }

// Loopback reports whether all servers are loopback addresses, if those are this machine.
func (p *Plan) Loopback(ctx context.Context) (bool, error) {
	none := &engine.Allowed{NoLoopback: p.Allowed.NoLoopback}
	for _, s := range p.Scenario.Servers {
		_, err := none.Find(ctx, hostPort(p.serverURL(s)), p.Resolver)
		var not *engine.NotAllowedError
		if errors.As(err, &not) {
			return false, nil
		} else if err != nil {
			return false, err
		}
	}
	return true, nil
}

// hostPort returns the host and the port of a URL.
func hostPort(base string) string {
	scheme, rest, _ := strings.Cut(base, "://")
	rest, _, _ = strings.Cut(rest, "/")
	rest, _, _ = strings.Cut(rest, "?")
	if at := strings.LastIndexByte(rest, ':'); at >= 0 && !strings.HasSuffix(rest, "]") {
		return rest
	}
	return rest + ":" + map[string]string{"http": "80", "https": "443", "mqtt": "1883", "mqtts": "8883"}[scheme]
}

// Hosts returns how many hosts run in all.
func (p *Plan) Hosts() int {
	if p.Options.Load.Rate > 0 {
		return min(p.Options.Load.Hosts, max(1, int(p.Options.Load.Rate*p.Options.Load.For.Seconds())))
	}
	return max(1, p.Options.Load.Hosts)
}

// passes returns how many passes the hosts make in all, of all processes.
func (p *Plan) passes() int64 { return int64(p.Hosts() * max(1, p.Options.Load.Repeat)) }

// own returns the numbers of the hosts of this process, from 1.
func (p *Plan) own() (out []int) {
	for n := p.first; n < p.Hosts(); n += p.step {
		out = append(out, n+1)
	}
	return out
}

// hostName returns the name of host n.
func (p *Plan) hostName(n int) string {
	if n > 0 && n <= len(p.HostNames) {
		return p.HostNames[n-1]
	}
	return fmt.Sprintf("%s%06d", p.Prefix, n)
}

// ownCertificates reports whether each host has a certificate of its own.
func (p *Plan) ownCertificates() bool {
	return p.HostCerts != "" || len(p.tls.Certificates) == 0 && p.identity.cert != nil
}

// certificate returns the certificate that belongs to one host only.
func (p *Plan) certificate(values []value) (*tls.Certificate, error) {
	cert := p.HostCerts + "/" + values[nameSlot].text + ".pem"
	key := cert
	if p.HostCerts == "" {
		cert, key = p.identity.cert.text(values), p.identity.key.text(values)
	}
	c, err := engine.Load(engine.Files{Cert: cert, Key: key}, p.read, nil)
	if err != nil {
		return nil, err
	}
	return &c.Certificates[0], nil
}

// CertFiles lists the certificate files that the hosts need.
func (s *Scenario) CertFiles(o Options) (out []string) {
	p := &Plan{Scenario: s, Options: o, tls: &tls.Config{}}
	if s.identity.ca != "" {
		out = append(out, s.identity.ca)
	}
	if s.identity.cert == nil || o.HostCerts != "" {
		return out
	}
	values := make([]value, len(s.names.slots))
	for n := 1; n <= p.Hosts(); n++ {
		p.builtins(values, n)
		for _, name := range []string{s.identity.cert.text(values), s.identity.key.text(values)} {
			if !slices.Contains(out[max(0, len(out)-2):], name) {
				out = append(out, name)
			}
		}
	}
	return out
}

// recorded is a resolver that asks each name once and records the answer.
type recorded struct {
	ask   engine.Resolver
	names *map[string][]netip.Addr
}

func (k *recorded) LookupNetIP(ctx context.Context, network, name string) ([]netip.Addr, error) {
	if found, ok := (*k.names)[name]; ok {
		return found, nil
	}
	found, err := k.ask.LookupNetIP(ctx, network, name)
	if err != nil {
		return nil, err
	}
	if *k.names == nil {
		*k.names = map[string][]netip.Addr{}
	}
	(*k.names)[name] = found
	return found, nil
}

// Says describes the load and what it may change, before it starts.
func (p *Plan) Says() string {
	n := internaltext.Count(p.Hosts(), "host")
	l := p.Options.Load
	text := fmt.Sprintf("%s: %s at a time, %s each", p.Name, n, internaltext.Count(l.Repeat, "pass"))
	if l.Rate > 0 {
		text = fmt.Sprintf("%s: %s, %s for %v", p.Name, n, engine.Stage{From: l.Rate, To: l.Rate}, l.For)
	}
	return text + fmt.Sprintf(", %s", internaltext.Count(len(p.steps), "step"))
}

// Targets describes the servers, with their addresses as in the file or the options.
func (p *Plan) Targets() (out []string) {
	for _, s := range p.Scenario.Servers {
		out = append(out, s.Name+" at "+p.serverURL(s))
	}
	return out
}

// Least returns the minimum duration of the run: arrivals and think times.
func (p *Plan) Least() time.Duration {
	think := time.Duration(0)
	for _, s := range p.steps {
		think += (s.think.least + s.think.most) / 2
	}
	if l := p.Options.Load; l.Rate > 0 {
		return min(l.For, time.Duration(float64(p.Hosts())/l.Rate*float64(time.Second))) + think
	} else {
		return think * time.Duration(l.Repeat)
	}
}

// MostObjects returns how many objects the run creates at most, for_each not counted.
func (p *Plan) MostObjects() (n int) {
	for _, s := range slices.Concat(p.setup, p.steps) {
		switch {
		case s.creates == nil:
		case s.once || slices.Contains(p.setup, s):
			n++
		default:
			n += p.Hosts() * max(1, p.Options.Load.Repeat)
		}
	}
	return n
}
