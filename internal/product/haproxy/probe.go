package haproxy

import (
	"context"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/systemd"
	"fettle.dev/fettle/internal/text"
)

// Probe implements component.Prober: haproxy -c says whether the files are valid, and warns.
func (i *installed) Probe(ctx context.Context) { i.Take(i.dryRun(ctx)) }

func (i *installed) dryRun(ctx context.Context) (product.Checked, error) {
	if host.Unknown(i.fileErr) {
		return product.Checked{}, i.fileErr
	}
	// -dr: it has no network to ask who its servers are.
	d := product.DryRun{Argv: []string{"haproxy", "-c", "-dr"}, Otherwise: "root", Running: i.run, Files: i.files.files, Complaint: complaint}
	for _, a := range arguments(i.host, i.Main) {
		d.Argv = append(d.Argv, "-f", a)
	}
	if d.Unit = product.Unit(i.host, i.Main, "haproxy.service"); i.runErr == nil && i.run.Main.Unit != "" {
		d.Unit = i.run.Main.Unit
	}
	if u, err := systemd.New(i.host).Load(d.Unit); d.Unit != "" && err == nil {
		env, _ := u.Environment()
		for name, v := range env {
			d.Env = append(d.Env, name+"="+v.Text)
		}
	}
	for _, key := range []string{"global/user", "global/uid"} {
		if o, ok, err := i.files.get(key); ok && err == nil {
			d.User = o.value()
		}
	}
	return d.Run(ctx, i.host)
}

var lacksTimeout = text.LazyRegexp(`missing timeouts for (?:[a-z]+ )?'([^']*)'`)

// timeless are the proxies that wait without an end: where the files leave it open, those
// that haproxy -c warns of. It says of each only that a timeout is missing.
func (i *installed) timeless() ([]string, error) {
	list, err := i.files.timeless()
	if err == nil || !i.AsRead() {
		return list, err
	}
	list = []string{}
	for _, m := range lacksTimeout().FindAllStringSubmatch(i.Checked.Messages, -1) {
		if at := slices.IndexFunc(i.files.sections, func(x section) bool { return x.name == m[1] && x.kind != "defaults" }); at >= 0 {
			list = append(list, i.files.sections[at].key()+": a timeout (haproxy -c)")
		} else {
			list = append(list, strings.TrimSpace(m[1])+": a timeout (haproxy -c)")
		}
	}
	return list, nil
}
