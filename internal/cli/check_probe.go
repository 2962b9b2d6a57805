package cli

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product/puppetserver"
	"fettle.dev/fettle/internal/requests/load/engine"
	"fettle.dev/fettle/internal/ui"
)

// probeOptions are the options of check --probe.
type probeOptions struct {
	asked                         bool
	url                           string
	backEnds, environments, allow []string
	file, userAgent               string
	files                         engine.Files
}

// probeTimeout limits one answer. A server that starts an interpreter needs many seconds.
const probeTimeout = 30 * time.Second

func (o *probeOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.asked, "probe", false, "run nginx -T, httpd -t and haproxy -c (needs root); with --url also send requests that a Puppet Server must refuse")
	f.StringVar(&o.url, "url", "", "with --probe of puppet: URL that the agents use, https://HOST:8140; needs an agent's certificate")
	f.StringArrayVar(&o.backEnds, "backend", nil, "with --probe: address of the Puppet Server behind --url; repeatable (default from webserver.conf)")
	f.StringArrayVar(&o.environments, "environment", []string{"production"}, "with --probe: environment to request; repeatable, each further one is compared with the first")
	f.StringVar(&o.file, "file", "", "with --probe: file to request from the server, such as modules/ssh/sshd_config (default the first file that agents get as a plug-in)")
	f.StringVar(&o.userAgent, "user-agent", "", "with --probe: User-Agent of the agents, as in the access log")
	f.StringArrayVar(&o.allow, "allow", nil, "with --probe: HOST:PORT or network that may be contacted; repeatable; loopback is always allowed")
	f.StringVar(&o.files.PuppetSSLDir, "puppet-ssldir", "", "with --probe: ssldir of a Puppet agent, with its certificate, key and CA")
	f.StringVar(&o.files.CertName, "certname", "", "with --probe: the agent's name in --puppet-ssldir")
	f.StringVar(&o.files.Cert, "cert", "", "with --probe: file with the agent's certificate, PEM")
	f.StringVar(&o.files.Key, "key", "", "with --probe: file with the key of --cert, PEM")
	f.StringVar(&o.files.CA, "cacert", "", "with --probe: file with the CA certificates, PEM (default the system's)")
}

const probeExample = "for example: fettle check puppet --probe --url https://puppet.example.com:8140 --allow puppet.example.com:8140 --puppet-ssldir /etc/puppetlabs/puppet/ssl --certname agent1.example.com"

// rules adds checks for flags that exclude or require each other.
func (o *probeOptions) rules(c *cobra.Command) {
	cliutil.Check(c, func(platforms []string) error {
		puppet := slices.Contains(platforms, "puppet")
		switch {
		case !o.asked:
			return nil
		case o.url == "" && puppet:
			return ui.Hinted(ui.Usage, errors.New("--probe: --url missing; want --url https://HOST:8140, the address that agents use"), probeExample)
		case o.url == "":
			return nil
		case !puppet:
			return ui.Retry(ui.Usage, errors.New("--probe --url works with a Puppet Server only"), "", "puppet")
		case o.files.PuppetSSLDir == "" && o.files.CertName == "" && o.files.Cert == "" && o.files.Key == "":
			return ui.Hinted(ui.Usage, errors.New("--probe: agent certificate missing; give --puppet-ssldir DIR --certname NAME, or --cert and --key"), probeExample)
		}
		return cliutil.OrUsage(o.files.Check())
	})
	cliutil.Requires(c, "--url", "backend", "environment", "file", "user-agent", "allow", "puppet-ssldir", "certname", "cert", "key", "cacert")
	cliutil.Requires(c, "--probe", "url")
}

// probe adds probes to the subject. They run this machine's programs to read the programs' own
// files, and query a Puppet Server if --url names one.
func (a *app) probe(ctx context.Context, h *host.Host, o probeOptions, subject *platform.Subject) (err error) {
	if a.root != "" {
		return ui.Without(errors.New("--probe runs programs, and --root only reads a copy; leave one out"), "--probe")
	}
	subject.DryRun = os.Geteuid() == 0
	if o.url != "" {
		subject.Probe, err = a.prober(ctx, h, o)
		return err
	}
	if !subject.DryRun {
		return ui.Hinted(ui.Refused, errors.New("--probe must run as root: it runs nginx -T, httpd -t and haproxy -c in a sandbox"), "sudo fettle check --probe")
	}
	return nil
}

// prober returns the function that queries the Puppet Server.
func (a *app) prober(ctx context.Context, h *host.Host, o probeOptions) (func(context.Context) map[string]fact.Answer, error) {
	p, err := o.plan(ctx, h, net.DefaultResolver)
	var not *engine.NotAllowedError
	switch {
	case errors.As(err, &not):
		is := ""
		if not.Target != not.Socket.String() {
			is = fmt.Sprintf("%s, which is ", not.Socket.Addr())
		}
		return nil, ui.Retry(ui.Refused, fmt.Errorf("%s is %snot a loopback address and not allowed; probe only your own servers", not.Target, is),
			"if the server is yours, allow it with --allow, or its network with --allow 192.0.2.0/24", "--allow="+not.Target)
	case err != nil:
		return nil, ui.Exit(ui.Usage, err)
	}
	return func(ctx context.Context) map[string]fact.Answer {
		a.screen.Say("probing %s as %s with at most %d GET requests", o.url, p.Node, p.Requests())
		return puppetserver.Run(ctx, *p)
	}, nil
}

// plan returns the plan of the requests.
func (o probeOptions) plan(ctx context.Context, h *host.Host, resolver engine.Resolver) (*puppetserver.Plan, error) {
	p := &puppetserver.Plan{
		Environments: distinct(o.environments), File: o.file, UserAgent: o.userAgent,
		Mark: fmt.Sprintf("%016x", rand.Uint64()), Timeout: probeTimeout,
	}
	if err := p.Check(); err != nil {
		return nil, err
	}
	allowed, err := engine.ParseAllowed(ctx, o.allow, resolver)
	if err != nil {
		return nil, cliutil.OfOption("--allow", err)
	}
	if p.Front, err = site(ctx, o.url, allowed, resolver); err != nil {
		return nil, cliutil.OfOption("--url", err)
	}
	if p.Front.URL.Scheme != "https" {
		return nil, fmt.Errorf("--url %s: Puppet agents use https; want https://HOST:PORT", o.url)
	}
	for _, word := range o.backEnds {
		s, err := site(ctx, word, allowed, resolver)
		if err != nil {
			return nil, cliutil.OfOption("--backend", err)
		}
		if slices.ContainsFunc(s.Sockets, func(a netip.AddrPort) bool { return a.Addr().IsLoopback() }) {
			return nil, fmt.Errorf("--backend %s: only this machine can reach this address; use an address that other machines can reach", word)
		}
		p.BackEnds = append(p.BackEnds, s)
	}
	if len(o.backEnds) == 0 {
		if err := ownBackEnds(ctx, h, p, allowed, resolver); err != nil {
			return nil, err
		}
	}
	if p.TLS, err = engine.Load(o.files, loadcli.ReadFile, func() (string, error) { return "", nil }); err != nil {
		return nil, err
	}
	p.Node, err = nodeOf(p.TLS)
	return p, err
}

// site parses a URL and resolves its host name.
func site(ctx context.Context, word string, allowed *engine.Allowed, resolver engine.Resolver) (s puppetserver.Site, err error) {
	u, err := url.Parse(word)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Hostname() == "" || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "" {
		return s, errors.New("want https://HOST:PORT without a path")
	}
	port := cmp.Or(u.Port(), map[string]string{"https": "443", "http": "80"}[u.Scheme])
	sockets, err := allowed.Find(ctx, net.JoinHostPort(u.Hostname(), port), resolver)
	return puppetserver.Site{URL: u, Sockets: sockets}, err
}

// ownBackEnds adds this machine's Puppet Server sockets that other machines can reach.
func ownBackEnds(ctx context.Context, h *host.Host, p *puppetserver.Plan, allowed *engine.Allowed, resolver engine.Resolver) error {
	sockets, err := puppetserver.Sockets(h)
	if err == nil && len(sockets) == 0 {
		err = fmt.Errorf("no file in %s sets the listen address", puppetserver.LayoutOf(h).Options)
	}
	if err != nil {
		p.NoBackEnds = "the address of Puppet Server behind the front end is unknown (" + err.Error() + "); give it with --backend URL, using an address that other machines can reach"
		return nil
	}
	for _, s := range sockets {
		p.BackEndsAt = s.At
		if s.Loopback() {
			continue
		}
		name := s.Host
		if a, err := netip.ParseAddr(name); err == nil && a.IsUnspecified() {
			name = "localhost" // the same socket, which other machines reach by other addresses
		}
		scheme := map[bool]string{true: "https", false: "http"}[s.TLS]
		found, err := site(ctx, scheme+"://"+net.JoinHostPort(name, s.Port), allowed, resolver)
		if err != nil {
			return fmt.Errorf("%s: %w", s.At, err)
		}
		p.BackEnds = append(p.BackEnds, found)
	}
	return nil
}

// nodeOf returns the node named in a certificate.
func nodeOf(c *tls.Config) (string, error) {
	if len(c.Certificates) == 0 || len(c.Certificates[0].Certificate) == 0 {
		return "", errors.New("no agent certificate given")
	}
	leaf, err := x509.ParseCertificate(c.Certificates[0].Certificate[0])
	if err != nil {
		return "", err
	}
	if leaf.Subject.CommonName == "" {
		return "", errors.New("the certificate has no common name (CN)")
	}
	return leaf.Subject.CommonName, nil
}
