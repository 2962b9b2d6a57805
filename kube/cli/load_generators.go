package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load/engine"
	loadfleet "fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/job"
	"fettle.dev/fettle/kube/load/generators"
	loadrun "fettle.dev/fettle/kube/load/run"
)

// generatorOptions are the options of verbs that run generators in pods.
type generatorOptions struct {
	podOptions
	all      *loadOptions
	recorded string // command line for the record
}

// RunResult is the JSON form of a load: the headline, and the record of the run.
type RunResult struct {
	Headline ui.Headline `json:"headline"`
	*evidence.Run
}

// flags adds the flags, with the checks of their values.
func (o *generatorOptions) flags(c *cobra.Command) {
	o.count = 1
	o.podOptions.flags(c, "100m", "256Mi")
}

// loadFlags adds the flags of a load: the number of generators, and what they may load.
func (o *generatorOptions) loadFlags(c *cobra.Command) {
	f := c.Flags()
	f.IntVar(&o.count, "generators", 1, "number of pods that generate the load")
	cliutil.Between(f, "generators", 1, job.MaxCount, 8)
	f.Lookup("allow").Usage = "HOST:PORT or network that may be loaded; repeatable; all servers must be allowed"
	cliutil.Reads(f, "allow", "web.shop.svc:8080", func(word string) error {
		_, err := engine.ParseAllowed(c.Context(), []string{word}, outside{})
		return err
	})
	o.flags(c)
}

// Times that are added to the duration of the load for the deadline of the pods.
const (
	// toLose is the time without a report after which a generator is given up.
	toLose = 30 * time.Second
	// toEnd is for the last answers and the report.
	toEnd = 30 * time.Second
	// toAttach is the time in which a generator gets its first message after all pods run.
	toAttach = 2 * time.Minute
)

// unresolved stands for the addresses of names that only the cluster knows.
var unresolved = netip.MustParsePrefix("2001:db8::/32")

// outside resolves each name to an address of its own, so that a load can be checked before any
// pod exists.
type outside map[string]netip.Addr

// LookupNetIP implements engine.Resolver.
func (names outside) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return []netip.Addr{netip.IPv6Loopback()}, nil
	}
	if _, known := names[host]; !known {
		next := unresolved.Addr()
		for range len(names) + 1 {
			next = next.Next()
		}
		names[host] = next
	}
	return []netip.Addr{names[host]}, nil
}

// orUnresolved returns what is allowed for a plan with invented addresses: a name may be in an
// allowed network, which only the pods can tell.
func orUnresolved(allow []string) []string {
	if slices.ContainsFunc(allow, func(word string) bool { return strings.Contains(word, "/") }) {
		return append(slices.Clone(allow), unresolved.String())
	}
	return allow
}

// planError sets the exit code of an error about what the load asks for.
func planError(err error) error {
	var not *engine.NotAllowedError
	if !errors.As(err, &not) {
		return cliutil.OrUsage(err)
	}
	if not.Socket.Addr().IsLoopback() {
		return ui.Hinted(ui.Refused, err, "name the server as the pods reach it, such as http://SERVICE.NAMESPACE.svc:8080/; kubectl get services --all-namespaces lists them")
	}
	return ui.Retry(ui.Refused, fmt.Errorf("%s is not allowed; load only your own servers", not.Target), "if the server is yours, allow it with --allow, or its network with --allow 192.0.2.0/24", "--allow="+not.Target)
}

// generatorSet returns the generators of a load, whose job they read from Secrets, and the store of
// runs. Without connect it asks no cluster.
func (a *app) generatorSet(o *generatorOptions, deadline time.Duration, load any, connect bool) (*generators.Set, error) {
	base, err := a.jobSet(&o.podOptions, "fettle-load", connect)
	if err != nil {
		return nil, err
	}
	base.Request = generators.Generators(base.Request)
	base.Deadline, base.Alone = o.startWithin+loadfleet.ToStart+deadline+toLose+toEnd, o.startWithin+toAttach
	set := &generators.Set{Set: *base}
	if set.Load, err = json.Marshal(load); err != nil {
		return nil, err
	}
	if n := len(set.Load); n > generators.MaxLoad {
		return nil, ui.Exit(ui.Usage, text.Errorf("certificates, headers, bodies and requests take %s, but Secrets hold at most %d; use fewer or smaller files", text.Count(n, "byte"), generators.MaxLoad))
	}
	return set, nil
}

// printGenerators prints the objects. It leaves out the keys.
func (a *app) printGenerators(set *generators.Set) error {
	objects := []any{set.Job()}
	for _, secret := range set.Secrets("") {
		secret.OwnerReferences[0].UID = "UID-OF-THE-JOB"
		secret.StringData = map[string]string{}
		for name, value := range secret.Data {
			secret.StringData[name] = text.Count(len(value), "byte") + ", not shown"
		}
		secret.Data = nil
		objects = append(objects, secret)
	}
	return a.printObjects(objects...)
}

// generate creates the generators, calls use with a fleet of them, and deletes them. use may delete
// them earlier, with end.
func (a *app) generate(ctx context.Context, o *generatorOptions, set *generators.Set, use func(f *loadfleet.Fleet, end func() error) error) (err error) {
	set.AnyUser = job.OpenShift(ctx, set.Server)
	if err := a.mayCreate(ctx, &set.Set, set.Role()); err != nil {
		return err
	}
	secrets := "its Secret"
	if n := len(set.Secrets("")); n > 1 {
		secrets = fmt.Sprintf("its %d Secrets", n)
	}
	a.sayCreates(&set.Set, &o.podOptions, " and "+secrets)
	return a.inJob(ctx, &set.Set, set.Create, func(end func() error) error {
		f, err := a.generators(ctx, o, set)
		if err != nil {
			return interruptedOr(ctx, err, "nothing was sent")
		}
		defer f.Close()
		return use(f, func() error {
			f.Close()
			return end()
		})
	})
}

// generators waits for the pods, and connects to them.
func (a *app) generators(ctx context.Context, o *generatorOptions, set *generators.Set) (*loadfleet.Fleet, error) {
	step, stop := a.screen.Steps(0)
	pods, err := set.Wait(ctx, o.startWithin, func(running int) {
		step(fmt.Sprintf("%d of %s run", running, text.Count(set.Count, "generator")), running, set.Count)
	})
	stop()
	if err != nil {
		return nil, err
	}
	nodes := map[string]bool{}
	for _, p := range pods {
		nodes[p.Node] = true
	}
	a.screen.Say("%s on %s", text.Count(len(pods), "generator"), text.Count(len(nodes), "node"))
	return loadfleet.Connect(ctx, set.Places(pods))
}

// loadRecords returns the store of runs, and a store of its own for the records of a kind of load.
func (a *app) loadRecords(o *generatorOptions, kind string) (loadrun.Store, evidence.Store, error) {
	store, err := a.loadStore(o.all)
	if err == nil {
		err = os.MkdirAll(store.Dir, 0o700)
	}
	return store, evidence.Store{Dir: filepath.Join(store.Dir, kind)}, err
}

// generated is the result of a load.
type generated interface {
	Headline() ui.Headline
	Print(s *ui.Screen, r *evidence.Run)
}

// finishGenerated records and prints a load. gated is the error of its result.
func (a *app) finishGenerated(ctx context.Context, set *generators.Set, records evidence.Store, run *evidence.Run, result generated, gated error) (err error) {
	run.Machine = machineOf(ctx, set)
	if run.Body, err = json.Marshal(result); err != nil {
		return err
	}
	err = gated
	if kept := records.Put(run); kept != nil {
		run.ID = ""
		err = errors.Join(err, fmt.Errorf("cannot save the record: %w", kept))
	} else {
		a.screen.Say("record: %s", filepath.Join(records.Dir, run.ID+".json"))
	}
	return a.show(RunResult{result.Headline(), run}, err, func() { result.Print(a.screen, run) })
}

// machineOf describes the cluster that generated the load, as far as this user may see it.
func machineOf(ctx context.Context, set *generators.Set) evidence.Machine {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	m := evidence.Machine{Name: set.Server.Base(), Settings: map[string]string{
		"generators": fmt.Sprint(set.Count), evidence.GeneratorImage: set.Image, evidence.GeneratorNamespace: set.Namespace, "generator CPU request": set.CPU.String(), "generator memory": set.Memory.String(),
	}}
	m.OS, _ = set.Server.Version(ctx)
	if uid, err := set.Server.Cluster(ctx); err == nil {
		sum := sha256.Sum256([]byte(uid))
		m.Hardware = hex.EncodeToString(sum[:8])
	}
	return m
}
