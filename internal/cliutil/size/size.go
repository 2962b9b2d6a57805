// Package size implements the verb size of both programs. It collects inputs from options,
// logs and machines, and prints the settings that package sizing calculates.
package size

import (
	"cmp"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/openshift"
	"fettle.dev/fettle/internal/guide/sizing/puppet"
	"fettle.dev/fettle/internal/guide/sizing/satellite"
	"fettle.dev/fettle/internal/guide/sizing/server"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/logformat"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/rules"
)

// Program is the program that has the verb.
type Program struct {
	Screen *ui.Screen
	Call   string  // the command line, quoted for sh
	Root   *string // --root
	Live   func() *host.Host
}

// host opens the machine: this machine, or the copy of --root.
func (p *Program) host() (*host.Host, error) {
	if *p.Root == "" {
		return p.Live(), nil
	}
	return cliutil.OpenRoot(p.Screen, *p.Root)
}

// gatherer adds data from logs and a machine's configuration to a request.
type gatherer func(context.Context, *Program, *host.Host, sizing.Request) error

// sizes is the table of the available sizings.
var sizes = []struct {
	name, short, long string
	wish              func() sizing.Request
	// here maps inputs to this machine's figures, which are the defaults.
	here map[string]machineFigure
	// gather adds data to a request; nil if the sizing does not concern a machine.
	gather gatherer
}{
	{
		"satellite", "Size a Satellite or Foreman server and its Capsules",
		`Calculates CPUs, memory, disk space and installer options of a Satellite or Foreman
server for its hosts. It shows where they differ from the installation size. Puma gets
no more workers than measurements justify. The written files pass fettle check satellite
without failures or warnings.

A Capsule is NAME[,hosts=N][,downloads=N][,rex=N]: hosts served, hosts that download at
once, and hosts of one remote execution job.`,
		func() sizing.Request { return satellite.New() },
		nil, nil,
	},
	{
		"openshift", "Size an OpenShift cluster: nodes, networks, storage",
		`Calculates nodes, networks and storage of a cluster for a number of pods or a table of
applications. The figures come from the documents of the OpenShift version. It also
shows which tested maximum is reached first.

The table of applications (--apps) is a list:

  - {name: node.js, quantity: 200, cpu: 1, memory: 1G, storage: 1G}
  - {name: eap, quantity: 100, cpu: 1, memory: 1G, overcommit: false}`,
		func() sizing.Request { return openshift.New() },
		nil, nil,
	},
	{
		"postgresql", "Size a PostgreSQL server: memory, workers, log",
		`Recommends PostgreSQL settings for a number of connections. --ram and --cpus default to
those of this machine; the output says so.`,
		func() sizing.Request { return server.NewPostgreSQL() },
		map[string]machineFigure{"ram": memoryHere, "cpus": cpusHere}, nil,
	},
	{
		"hugepages", "Size huge pages: number, NUMA nodes, access", "",
		func() sizing.Request { return server.NewHugePages() },
		nil, nil,
	},
	{
		"network", "Calculate MTU and CPU cost of an overlay network", "",
		func() sizing.Request { return server.NewNetwork() },
		nil, nil,
	},
	{
		"puppet", "Size a Puppet Server from its log: JRubies, heap, cache",
		`Sizes a Puppet Server from its access log and its configuration, on this machine or in
--root. It decides in this order:

  1. whether catalogs should contain file metadata (static catalogs)
  2. whether a cache in front of the server is worth it
  3. how many JRuby interpreters and how much memory the remaining requests need

It writes files only for worthwhile changes: scripts for static catalogs, the cache's
configuration (nginx or Apache httpd, with TLS and client certificates), and the
server's own configuration and memory. Otherwise it reports the log's figures.`,
		func() sizing.Request { return puppet.New() },
		map[string]machineFigure{"ram": memoryHere, "cpus": cpusHere}, gatherPuppet,
	},
	{
		"httpd", "Size Apache httpd from its log: processes, threads",
		`Calculates httpd's processes and threads for the concurrent requests in its log. Module,
file layout and current values default to those of this machine or of --root.`,
		func() sizing.Request { return server.NewHTTPD() },
		nil, gatherHTTPD,
	},
	{
		"router", "Size HAProxy or OpenShift's router from its log",
		`Calculates connections, threads, routers and timeouts for the requests in the log.`,
		func() sizing.Request { return server.NewRouter() },
		map[string]machineFigure{"ram": memoryHere, "cpus": cpusHere}, gatherRouter,
	},
}

// Guides holds the manual pages and examples of the verb and its subcommands.
var Guides = map[string]cliutil.Guide{
	"size":            {Page: "size.md", Calls: []string{"satellite --hosts 12k"}},
	"size satellite":  {Calls: []string{"--hosts 12k", "--hosts 5000 --ram 64GiB --cpus 16 --write satellite", "--hosts 12,000 --capsule cap1,hosts=4000"}},
	"size openshift":  {Page: "size-openshift.md", Calls: []string{"--pods 2200", "--pods 500 --node-cores 16 --node-ram 64GiB --write cluster", "--pods 500 --version 4.4"}},
	"size postgresql": {Calls: []string{"--connections 200", "--connections 500 --ram 64GiB --cpus 16 --disk ssd --write pg"}},
	"size hugepages":  {Calls: []string{"--size 16GiB --ram 64GiB", "--size 32GiB --page 1G --ram 256GiB --for postgresql"}},
	"size network":    {Calls: []string{"--mtu 1500", "--mtu 9000 --overlay vxlan --rate 25"}},
	"size puppet":     {Page: "size-requests.md", Calls: []string{"--log /var/log/puppetlabs/puppetserver/puppetserver-access.log", "--log access.log --cpus 8 --ram 32GiB --write puppet"}},
	"size httpd":      {Page: "size-requests.md", Calls: []string{"--log /var/log/httpd/access_log", "--log access.log --for debian --headroom 3"}},
	"size router":     {Page: "size-requests.md", Calls: []string{"--log /var/log/haproxy.log", "--log router.log --for haproxy --cpus 8 --ram 16GiB"}},
}

// aboutSizes explains the units of a size.
const aboutSizes = `Units of a size are powers of 1024: 64GB of memory means 64GiB, as in PostgreSQL and the
kernel.`

// aboutDisks explains the units of disk space.
const aboutDisks = ` Only disk space (--disk) uses powers of 1000 for GB and TB.`

type sizeOptions struct {
	write string
	force bool
	show  sizing.Show
}

// Command returns the verb as a command.
func Command(p *Program) *cobra.Command {
	parent := &cobra.Command{
		Use: "size", Short: "Size Satellite, OpenShift, PostgreSQL, Puppet, ...",
		Long: `Calculates settings for a platform, each with its reason and source. It also generates
the files for the platform's own tools, and lists the steps that apply them. It changes
no machine. It reads this machine only where the output says so. --write DIR writes the
files below a directory.`,
		Args: cliutil.KnownVerb,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	for _, s := range sizes {
		wish := s.wish()
		var o sizeOptions
		c := &cobra.Command{
			Use: s.name, Short: s.short, Long: s.long, Args: cobra.NoArgs, SuggestFor: audit.Parts(s.name), Aliases: audit.Aliases(s.name),
			RunE: func(c *cobra.Command, _ []string) error {
				return p.size(c.Context(), wish, s.here, s.gather, o)
			},
		}
		switch sizes := sizeInputs(wish); {
		case slices.Contains(sizes, "disk"):
			c.Long = s.long + "\n\n" + aboutSizes + aboutDisks
		case len(sizes) > 0:
			c.Long = strings.TrimSpace(s.long + "\n\n" + aboutSizes)
		}
		f := c.Flags()
		f.SortFlags = false
		for _, in := range wish.Inputs() {
			if in.File {
				f.Var(&fileFlag{in}, in.Name, in.Doc)
				continue
			}
			flag := f.VarPF(in, in.Name, "", in.Doc)
			if in.IsBoolFlag() {
				flag.NoOptDefVal = "true"
			}
		}
		f.StringVar(&o.write, "write", "", "write the files below this directory; created if missing")
		f.BoolVar(&o.force, "force", false, "with --write: also overwrite files that fettle did not write")
		f.BoolVar(&o.show.Details, "details", false, "print all values, limits, budgets and notes, and how to check each step")
		f.BoolVar(&o.show.Sources, "sources", false, "print the source of each value")
		cliutil.Requires(c, "--write", "force")
		cliutil.Check(c, func([]string) error { return p.complete(c, wish, s.gather) })
		parent.AddCommand(c)
	}
	return parent
}

// Completions returns the completions of the inputs, for cliutil.Complete.
func Completions() map[string]cobra.CompletionFunc {
	all := map[string]cobra.CompletionFunc{}
	for _, s := range sizes {
		for _, in := range s.wish().Inputs() {
			flag := "size " + s.name + " --" + in.Name
			switch {
			case in.File:
			case len(in.Choices) > 0:
				all[flag] = cliutil.Fixed(in.Choices...)
			case in.Name == "version" || in.Name == "product-version":
				all[flag] = Releases(s.name + "-releases")
			case in.Name == "format":
				all[flag] = cliutil.Fixed(logformat.Names()...)
			}
		}
	}
	return all
}

// sizeInputs returns the names of the inputs that are a size in bytes.
func sizeInputs(wish sizing.Request) []string {
	var names []string
	for _, in := range wish.Inputs() {
		if in.Kind == "size" {
			names = append(names, in.Name)
		}
	}
	return names
}

// fileFlag is an input whose value is the text of a file.
type fileFlag struct{ *sizing.Input }

// Set reads the file with the given name.
func (f *fileFlag) Set(name string) error {
	if name == "" {
		return errors.New("want a file name")
	}
	path, err := filepath.Abs(name)
	if err != nil {
		return err
	}
	text, err := host.Live().Files.ReadFile(path)
	if err != nil {
		return err
	}
	return f.SetFile(name, string(text))
}

// Releases returns a completion of the versions in a table of releases.
func Releases(table string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		f, err := figures()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		e, err := sizing.Of(f, table, "")
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return e.Keys(), cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// figures returns the catalog's tables, which are immutable.
var figures = sync.OnceValues(func() (sizing.Figures, error) {
	files, err := rule.Embedded(rules.FS)
	if err != nil {
		return nil, err
	}
	return rule.Tables(files)
})

// essential are the inputs without which a sizing has no answer: one of them must be given. (A log
// may be found on the machine.)
var essential = []string{"hosts", "pods", "apps", "nodes", "connections", "size"}

// complete returns an error for a call that lacks the essential input of a sizing, or has --root
// for one that does not read a machine.
func (p *Program) complete(c *cobra.Command, wish sizing.Request, gather gatherer) error {
	if *p.Root != "" && gather == nil {
		return ui.Without(errors.New("this sizing does not read a machine; leave out --root"), "--root")
	}
	has := func(given bool) bool {
		return slices.ContainsFunc(essential, func(name string) bool {
			f := c.Flags().Lookup(name)
			return f != nil && (!given || f.Changed)
		})
	}
	if has(true) || !has(false) {
		return nil
	}
	f, err := figures()
	if err != nil {
		return err
	}
	var bad *sizing.InputError
	if _, err = wish.Size(c.Context(), f); errors.As(err, &bad) && len(bad.Works) > 0 {
		return ui.Instead(ui.Usage, err, "", bad.Works[0])
	}
	return nil // an error of the sizing itself comes later
}

func (p *Program) size(ctx context.Context, wish sizing.Request, here map[string]machineFigure, gather gatherer, o sizeOptions) error {
	if err := cliutil.WritableDir("--write", o.write); err != nil {
		return err
	}
	f, err := figures()
	if err != nil {
		return err
	}
	h, err := p.host()
	if err != nil {
		return err
	}
	assumed, err := assumeHere(h, wish, here)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	var cut *cutLogs
	if gather != nil {
		if err := gather(ctx, p, h, wish); err != nil && !errors.As(err, &cut) {
			return err
		}
	}
	r, err := wish.Size(ctx, f)
	var bad *sizing.InputError
	if errors.As(err, &bad) {
		if len(bad.Works) > 0 {
			return ui.Instead(ui.Usage, err, "", bad.Works...)
		}
		return ui.Exit(ui.Usage, err)
	}
	if err != nil {
		return err
	}
	if assumed != "" {
		r.Note("%s", assumed)
	}
	err = nil
	if cut != nil { // the result counts, but the truncation is an error
		err = cut
		for _, text := range logs.NotWhole(cut.logs, nil) {
			r.Note("%s", text)
			r.Headline.Line("%s", text)
		}
	}
	if o.write != "" {
		var wrong error
		if r.Written, wrong = sizing.WriteDir(o.write, r.Platform, r.Files, o.force); wrong != nil {
			return wrong
		}
	}
	if cliutil.ForPrograms(p.Screen) {
		return cliutil.Result(p.Screen, r, err)
	}
	sizing.Print(p.Screen, r, o.show)
	return err
}

// OverlayMTU returns the MTU that size network calculates inside an overlay, vxlan or geneve, on
// devices with an MTU, in bytes.
func OverlayMTU(overlay string, ipsec bool, device int) (int, error) {
	f, err := figures()
	if err != nil {
		return 0, err
	}
	r := sizing.NewResult(f, "network", "")
	mtu, _, _, err := server.MTU(r, overlay, ipsec, device)
	return mtu, cmp.Or(r.Err(), err)
}
