package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/cluster"
	"fettle.dev/fettle/kube/etcd"
	loadrun "fettle.dev/fettle/kube/load/run"
)

// etcdAccess says with what the members of etcd are asked: the names of the options are
// those of the API server's, which asks the same members.
type etcdAccess struct{ ca, cert, key string }

func (o *etcdAccess) flags(f *pflag.FlagSet) {
	f.StringVar(&o.ca, "etcd-cacert", "", "file with the authority of etcd's certificates (default that of this machine)")
	f.StringVar(&o.cert, "etcd-cert", "", "file with the certificate that is shown to etcd")
	f.StringVar(&o.key, "etcd-key", "", "file with its key")
}

// maxPEM bounds a file with certificates or a key, in bytes; bundles of all authorities of
// a system have some 200 KiB.
const maxPEM = 1 << 20

// given reports whether one of them is.
func (o *etcdAccess) given() bool { return o.ca+o.cert+o.key != "" }

// read reads the files.
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
			err = fmt.Errorf("%s has more than %d KiB: want certificates in PEM", f.name, maxPEM>>10)
		}
		if err != nil {
			return access, ui.Exit(ui.Usage, fmt.Errorf("%s: %w", f.flag, err))
		}
		*f.into = text
	}
	return access, nil
}

// open opens members by their addresses.
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

// shown are the members that the cluster shows. Where it shows none, or they want a
// certificate and none is given, unasked says so and what to do; option is the one by which
// they can be named.
func (a *app) shown(ctx context.Context, s *cluster.Server, o *etcdAccess, option string) (members []*etcd.Member, unasked string, err error) {
	if _, err := o.open(nil); err != nil {
		return nil, "", err // files that cannot be used, whatever there is
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
	a.screen.Say("etcd is asked at %s (%s)", strings.Join(found.Endpoints, ", "), found.From)
	if len(found.Without) > 0 {
		a.screen.Say("%s: no address that another machine could use is shown; %s with those of all members", strings.Join(found.Without, ", "), option)
	}
	return members, "", nil
}

// etcdOptions say where the members of etcd are.
type etcdOptions struct {
	endpoints []string
	etcdAccess
}

func (o *etcdOptions) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.endpoints, "etcd-endpoints", nil, "addresses of all members of etcd: https://HOST:2379,... (default those that the cluster shows)")
	o.etcdAccess.flags(f)
}

// members are those of etcd that are named, or else those that the cluster shows.
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

// apiServer is the API server for a few requests at a time, and its address.
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

// watched are members that the brake of a load watches, by where they tell their metrics:
// http://127.0.0.1:2381, with or without a path, which is /metrics.
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

// metricsAddress reads where a member tells its metrics.
func metricsAddress(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("want where a member of etcd tells its metrics, as http://127.0.0.1:2381")
	}
	return u, nil
}

func metricsOf(m *etcd.Member, page string) *loadrun.Member {
	return loadrun.MemberOf(m.URL, func(ctx context.Context) (string, error) {
		text, err := m.Get(ctx, page, loadrun.Patience)
		return string(text), err
	})
}
