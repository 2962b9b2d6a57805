package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/etcd"
	loadrun "fettle.dev/fettle/kube/load/run"
)

// etcdAccess holds the certificate files for etcd members. The flags have the API server's names,
// because the API server accesses the same members.
type etcdAccess struct{ ca, cert, key string }

func (o *etcdAccess) flags(f *pflag.FlagSet) {
	f.StringVar(&o.ca, "etcd-cacert", "", "file with etcd's CA certificate (default this machine's CA certificates)")
	f.StringVar(&o.cert, "etcd-cert", "", "file with the client certificate for etcd")
	f.StringVar(&o.key, "etcd-key", "", "file with the key of --etcd-cert")
}

// maxPEM limits a file with certificates or a key, in bytes. A bundle of a system's CAs has about
// 200 KiB.
const maxPEM = 1 << 20

// given reports whether the user named at least one file.
func (o *etcdAccess) given() bool { return o.ca+o.cert+o.key != "" }

// read reads the certificate files.
func (o *etcdAccess) read() (etcd.Access, error) {
	var access etcd.Access
	for _, f := range []struct {
		flag, name string
		into       *[]byte
	}{{"--etcd-cacert", o.ca, &access.CA}, {"--etcd-cert", o.cert, &access.Cert}, {"--etcd-key", o.key, &access.Key}} {
		if f.name == "" {
			continue
		}
		text, err := readNamed(f.name, maxPEM)
		if err == nil && len(text) > maxPEM {
			err = fmt.Errorf("%s is larger than %d KiB; want certificates in PEM", f.name, maxPEM>>10)
		}
		if err != nil {
			return access, ui.Exit(ui.Usage, fmt.Errorf("%s: %w", f.flag, err))
		}
		*f.into = text
	}
	return access, nil
}

// open returns clients for the members at the given addresses.
func (o *etcdAccess) open(endpoints []string) ([]*etcd.Member, error) {
	access, err := o.read()
	if err != nil {
		return nil, err
	}
	all, err := etcd.Open(endpoints, access)
	if err != nil {
		return nil, ui.Exit(ui.Usage, err)
	}
	return all, nil
}

// shown returns the etcd members that the cluster's API shows. If it shows none, or the members
// need a certificate that the user did not give, unasked contains the reason and what to do. option
// is the flag that names members.
func (a *app) shown(ctx context.Context, s *cluster.Server, o *etcdAccess, option string) (members []*etcd.Member, unasked string, err error) {
	if _, err := o.open(nil); err != nil {
		return nil, "", err // unusable files are an error in any cluster
	}
	found, err := etcd.Members(ctx, s)
	if err != nil {
		return nil, "", err
	}
	if len(found.Endpoints) == 0 || found.Guarded() && !o.given() {
		return nil, found.Unasked(option), nil
	}
	if members, err = o.open(found.Endpoints); err != nil {
		return nil, "", err
	}
	a.screen.Say("querying etcd at %s (%s)", strings.Join(found.Endpoints, ", "), found.From)
	if len(found.Without) > 0 {
		a.screen.Say("no address that other machines can use is known for %s; name the addresses of all members with %s", strings.Join(found.Without, ", "), option)
	}
	return members, "", nil
}

// etcdOptions select the etcd members.
type etcdOptions struct {
	endpoints []string
	etcdAccess
}

func (o *etcdOptions) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.endpoints, "etcd-endpoints", nil, "addresses of all etcd members: https://HOST:2379,... (default from the cluster)")
	o.etcdAccess.flags(f)
}

// members returns the named etcd members, or else those that the cluster's API shows.
func (a *app) members(ctx context.Context, o *etcdOptions, server func() (*cluster.Server, error)) (members []*etcd.Member, unasked string, err error) {
	if len(o.endpoints) > 0 {
		members, err = o.open(o.endpoints)
		return members, "", err
	}
	s, err := server()
	if err != nil {
		return nil, "", err
	}
	return a.shown(ctx, s, &o.etcdAccess, "--etcd-endpoints")
}

// apiServer returns a client of the API server for a few concurrent requests, and its address.
func (a *app) apiServer() (*cluster.Server, *url.URL, error) {
	config, err := a.config()
	if err != nil {
		return nil, nil, err
	}
	base, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, nil, ui.Exit(ui.Usage, err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		return nil, nil, ui.Exit(ui.Usage, err)
	}
	return cluster.New(base, transport).As(config.UserAgent).Within(config.Timeout), base, nil
}

// watched returns the members that the brake of a load watches. addresses are their metrics URLs,
// such as http://127.0.0.1:2381; the default path is /metrics.
func (o *etcdAccess) watched(addresses []string) ([]*loadrun.Member, error) {
	var out []*loadrun.Member
	for _, address := range addresses {
		u, err := metricsAddress(address)
		if err != nil {
			return nil, err
		}
		host := u.Host
		if u.Port() == "" {
			host += map[string]string{"http": ":80", "https": ":443"}[u.Scheme]
		}
		members, err := o.open([]string{u.Scheme + "://" + host})
		if err != nil {
			return nil, fmt.Errorf("--etcd-metrics: %w", err)
		}
		out = append(out, metricsOf(members[0], cmp.Or(strings.TrimSuffix(u.Path, "/"), "/metrics")))
	}
	return out, nil
}

// metricsAddress parses the URL of a member's metrics.
func metricsAddress(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("want the metrics address of an etcd member, such as http://127.0.0.1:2381")
	}
	return u, nil
}

func metricsOf(m *etcd.Member, page string) *loadrun.Member {
	return loadrun.MemberOf(m.URL, func(ctx context.Context) (string, error) {
		text, err := m.Get(ctx, page, loadrun.Patience)
		return string(text), err
	})
}

// defragmentOptions are the options of check --defragment.
type defragmentOptions struct {
	asked, yes, noCompact bool
	share                 float64 // percent
	size                  string
}

func (o *defragmentOptions) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.asked, "defragment", false, "compact etcd and defragment its members, the leader last, instead of the audit")
	f.BoolVarP(&o.yes, "yes", "y", false, "with --defragment: do not ask for confirmation")
	f.BoolVar(&o.noCompact, "no-compact", false, "with --defragment: do not compact the history")
	f.Float64Var(&o.share, "defragment-share", 100*etcd.Default.Share, "with --defragment: percentage of a member's database that must be free")
	f.StringVar(&o.size, "defragment-size", strconv.FormatUint(etcd.Default.Bytes/1e6, 10)+"MB", "with --defragment: space that must be free in a member's database")
	cliutil.Between(f, "defragment-share", 0.0, 100, 100*etcd.Default.Share)
	cliutil.Reads(f, "defragment-size", "500MB", func(word string) error { _, err := unit.ParseSize(word); return err })
}

func (o *defragmentOptions) check(changed func(string) bool) error {
	if !o.asked {
		for _, name := range []string{"yes", "no-compact", "defragment-share", "defragment-size"} {
			if changed(name) {
				return ui.Without(fmt.Errorf("--%s needs --defragment", name), "--"+name)
			}
		}
		return nil
	}
	for _, name := range []string{"fail-on", "disable", "all", "kubelet-time"} {
		if changed(name) {
			return ui.Without(fmt.Errorf("--%s applies only to the audit; leave out --defragment", name), "--"+name)
		}
	}
	return nil
}

// After a member's defragmentation, the cluster has two minutes to become healthy.
const (
	settle    = 2 * time.Minute
	lookEvery = 500 * time.Millisecond
)

// calm is how long the size in use must stay constant after a compaction.
var calm = 10 * time.Second

// defragment shows the plan, asks for confirmation, and carries the plan out.
func (a *app) defragment(ctx context.Context, o checkOptions) error {
	size, err := unit.ParseSize(o.defrag.size)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	members, unasked, err := a.members(ctx, &o.etcd, func() (*cluster.Server, error) {
		s, _, err := a.apiServer()
		return s, err
	})
	switch {
	case err != nil:
		return checkExit(ctx, err)
	case unasked != "":
		return ui.Retry(ui.Usage, fmt.Errorf("nothing defragmented: %s", unasked), "", "--etcd-endpoints=https://127.0.0.1:2379")
	}
	plan, err := etcd.Make(ctx, members, etcd.Limits{Share: o.defrag.share / 100, Bytes: uint64(size)}, !o.defrag.noCompact)
	if err != nil {
		return defragmentExit(err, nil)
	}
	a.printDefragment(plan)
	if !o.defrag.yes {
		if err := a.confirm(ctx, "Defragment?"); err != nil {
			return err
		}
	}
	w := etcd.Work{Members: members, Settle: settle, Look: lookEvery, Calm: calm, Tell: func(text string) { a.screen.Say("%s", text) }}
	done, err := w.Run(ctx, plan)
	if done != nil {
		done.Headline = defragmentHeadline(done)
	}
	return a.show(done, defragmentExit(err, done), func() { a.printDefragmented(done) })
}

// defragmentExit sets an error's exit code. Changes made before the error stay.
func defragmentExit(err error, done *etcd.Result) error {
	if err == nil {
		return nil
	}
	some := done != nil && (done.Compacted || len(done.Done) > 0)
	var refused *etcd.Refused
	switch {
	case errors.Is(err, context.Canceled) && some:
		return ui.Exit(ui.Interrupted, fmt.Errorf("interrupted; finished members stay defragmented; members not defragmented: %s", strings.Join(done.Left, ", ")))
	case errors.Is(err, context.Canceled):
		return ui.Exit(ui.Interrupted, errors.New("interrupted; nothing changed"))
	case some:
		return ui.Hinted(ui.Partial, fmt.Errorf("%w; members not defragmented: %s", err, strings.Join(done.Left, ", ")), "check etcdctl endpoint status --cluster; when all members are healthy, run the same call to continue")
	case errors.As(err, &refused):
		return ui.Retry(ui.Refused, fmt.Errorf("nothing defragmented: %w", err), "a member does not answer while it is defragmented, so all others must be healthy (see etcdctl endpoint status --cluster)")
	}
	return err
}

func human(n uint64) string { return unit.Size(n).Human() }

// printDefragment prints a plan. Data formats print it with the result instead.
func (a *app) printDefragment(p *etcd.Plan) {
	if !a.data() {
		g := ui.Grid{Columns: ui.Columns("ORDER", "MEMBER", "ID", "ROLE", "DATABASE", "IN USE", "FREE", "ABOVE THE LIMITS")}
		for i, s := range p.Steps {
			role, above, free := "follower", "no", s.DatabaseBytes-s.InUseBytes
			if s.Leader {
				role = "leader"
			}
			if s.Worth {
				above = "yes"
			}
			share := 0.0
			if s.DatabaseBytes > 0 {
				share = 100 * float64(free) / float64(s.DatabaseBytes)
			}
			g.Rows = append(g.Rows, []string{strconv.Itoa(i + 1), s.Endpoint, s.MemberID, role, human(s.DatabaseBytes), human(s.InUseBytes), fmt.Sprintf("%s, %.0f %%", human(free), share), above})
		}
		g.Write(a.screen)
	}
	if p.CompactTo > 0 {
		a.screen.Say("first, history before revision %d is compacted; clients that read older revisions must list again. Counting the freed space takes some seconds", p.CompactTo)
	}
	a.screen.Say("then each member with more than %s %% and more than %s free is defragmented; it answers no requests meanwhile (about 2 s per GiB on a fast disk)", unit.Digits(100*p.Limits.Share), human(p.Limits.Bytes))
	if p.NoSpace {
		a.screen.Say("the cluster has the alarm NOSPACE; afterwards run etcdctl alarm disarm to allow writes again")
	}
	a.screen.Say("consider a snapshot first: etcdctl snapshot save FILE")
}

// defragmentHeadline counts the members and sums the freed space.
func defragmentHeadline(r *etcd.Result) (h ui.Headline) {
	done, skipped, freed := 0, 0, uint64(0)
	for _, d := range r.Done {
		if d.Skipped != "" {
			skipped++
			continue
		}
		done++
		freed += d.BeforeBytes - min(d.AfterBytes, d.BeforeBytes)
	}
	line := fmt.Sprintf("%s of %s defragmented, %s freed", h.Count("members_defragmented", done, ""), h.Count("members", len(r.Done)+len(r.Left), "member"), h.Value("freed_bytes", float64(freed), unit.Size(freed).Human()))
	if skipped > 0 {
		line += ", " + h.Count("members_skipped", skipped, "") + " skipped"
	}
	if n := len(r.Left); n > 0 {
		line += ", " + h.Count("members_not_reached", n, "") + " not defragmented"
	}
	h.Line("%s", line)
	return h
}

// printDefragmented prints the result, the total first.
func (a *app) printDefragmented(r *etcd.Result) {
	if r == nil {
		return
	}
	ui.PrintHeadline(a.screen, &r.Headline)
	g := ui.Grid{Columns: ui.Columns("MEMBER", "BEFORE", "AFTER", "TOOK", "")}
	for _, d := range r.Done {
		took := fmt.Sprintf("%.2f s", d.DurationS)
		if d.Skipped != "" {
			took = "-"
		}
		g.Rows = append(g.Rows, []string{d.Endpoint, human(d.BeforeBytes), human(d.AfterBytes), took, d.Skipped})
	}
	if len(g.Rows) > 0 {
		g.Write(a.screen)
	}
}
