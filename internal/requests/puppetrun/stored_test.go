package puppetrun

import (
	"context"
	"os"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/source"
	"fettle.dev/fettle/internal/testkit/machine"
	"fettle.dev/fettle/internal/testkit/product"
	"fettle.dev/fettle/internal/testkit/root"
)

// TestStored tests that the report of a real agent, stored by the real server, is read, and that
// its run is found in the server's access log: the node waits longer for its catalog than the
// server takes.
func TestStored(t *testing.T) {
	root.Nightly(t, "starts Puppet Server, which takes a minute")
	if !root.Inside(t, root.Options{Puppet: true}) {
		return
	}
	product.Quicken(t)
	machine.Write(t, "/", map[string]string{
		product.Code + "/manifests/site.pp": "file { '/srv/motd': content => \"one\\n\" }\nexec { 'fails': command => '/bin/false', provider => posix }\n",
	})
	product.StartPuppetServer(t)
	// 4 and 6 are that a resource failed.
	product.Command(t, "sh", "-c", `mkdir -p /srv/a; puppet agent --test --color=false --certname agent1.test --ssldir /srv/a/ssl --vardir /srv/a --statedir /srv/a/state --server localhost >/srv/a/said 2>&1 || { code=$?; [ $code = 4 ] || [ $code = 6 ] || { cat /srv/a/said; exit $code; }; }`)
	const dir = "/var/lib/puppetserver/reports" // below server-var-dir of Debian's puppetserver.conf
	var files []File
	product.Eventually(t, "the report is stored", func() bool {
		var err error
		files, err = Find(host.Live(), dir)
		return err == nil && len(files) > 0
	})
	const log = product.Log
	product.Eventually(t, "the last request is in the log", func() bool {
		return strings.Contains(product.Read(t, log), "PUT /puppet/v3/report/agent1.test")
	})
	c := readAll(t, dir, Options{})
	found, err := source.Find(host.Live(), []string{log})
	if err != nil {
		t.Fatal(err)
	}
	f, err := logformat.Parse("puppetserver")
	if err != nil {
		t.Fatal(err)
	}
	served, err := ReadServed(context.Background(), source.NewSet(found), []*logformat.Format{f}, c.Nodes(), 1)
	if err != nil {
		t.Fatal(err)
	}
	r := c.Report(dir, served, nil, 0)
	if r.Runs != 1 || r.Failed != 1 || r.Unread.Files != 0 || len(r.ByNode) != 1 || r.ByNode[0].Name != "agent1.test" {
		t.Errorf("%+v", r)
	}
	states := map[string]bool{}
	for _, m := range r.Resources {
		if m.Failed > 0 {
			states[m.Name+" failed"] = true
		}
		if m.Changed > 0 {
			states[m.Name+" changed"] = true
		}
	}
	if !states["File[/srv/motd] changed"] || !states["Exec[fails] failed"] {
		t.Errorf("resources %+v", r.Resources)
	}
	x := r.Server
	if x.Joined != 1 || x.Unjoined != 0 || x.Unread != 0 {
		t.Fatalf("%+v:\n%s", x, product.Read(t, log))
	}
	// The log has whole milliseconds.
	if *x.Catalog.MeanS <= 0 || *x.RestMeanS < -0.001 {
		t.Errorf("the node waited %g s, and the server took %g s", *x.Retrieval.MeanS, *x.Catalog.MeanS)
	}
	text, err := os.ReadFile(files[0].Path)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("waited %g s, the server took %g s; the report of %s begins\n%.600s", *x.Retrieval.MeanS, *x.Catalog.MeanS, files[0].Path, text)
}
