package haproxy

import (
	"context"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/text"
)

// dryRun runs haproxy -c, which validates the files and prints warnings. -dr avoids resolving
// server names over the network.
func dryRun(ctx context.Context, i *installed, d product.DryRun) (product.Checked, error) {
	d.Argv, d.Otherwise, d.Complaint = []string{"haproxy", "-c", "-dr"}, "root", complaint
	for _, a := range arguments(i.Host, i.Main) {
		d.Argv = append(d.Argv, "-f", a)
	}
	for _, key := range []string{"global/user", "global/uid"} {
		if o, ok, err := i.Files.get(key); ok && err == nil {
			d.User = o.value()
		}
	}
	return d.Run(ctx, i.Host)
}

var lacksTimeout = text.LazyRegexp(`missing timeouts for (?:[a-z]+ )?'([^']*)'`)

// timeless returns the proxies with a missing timeout. If the files do not decide that, it returns
// the proxies named by the warning of haproxy -c, which does not say which timeout is missing.
func timeless(i *installed) ([]string, error) {
	list, err := i.Files.timeless()
	if err == nil || !i.AsRead() {
		return list, err
	}
	list = []string{}
	for _, m := range lacksTimeout().FindAllStringSubmatch(i.Checked.Messages, -1) {
		if at := slices.IndexFunc(i.Files.sections, func(x section) bool { return x.name == m[1] && x.kind != "defaults" }); at >= 0 {
			list = append(list, i.Files.sections[at].key()+": a timeout (haproxy -c)")
		} else {
			list = append(list, strings.TrimSpace(m[1])+": a timeout (haproxy -c)")
		}
	}
	return list, nil
}
