package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/resource"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/cliutil"
	"fettle.dev/fettle/internal/cliutil/loadcli"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/engine"
	loadfleet "fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/kube/load/generators"
	"fettle.dev/fettle/kube/load/mux"
)

// loadHTTPOptions are the options of load http.
type loadHTTPOptions struct {
	loadcli.Options
	all         *loadOptions
	count       int
	image       string
	cpu, memory string
	startWithin time.Duration
	dryRun      bool
	recorded    string // command line for the record
}

// RunResult is the JSON form of a load: the headline, and the record of the run.
type RunResult struct {
	Headline ui.Headline `json:"headline"`
	*evidence.Run
}

func (a *app) loadHTTPCommand(all *loadOptions) *cobra.Command {
	o := &loadHTTPOptions{all: all, Options: loadcli.Options{Example: []string{"http://web.example:8080/", "--allow=web.example:8080"}}}
	c := &cobra.Command{
		Use: "http URL...", Short: "Load HTTP servers from pods in the cluster",
		Long: `Sends requests at a fixed rate like fettle load http, but from pods of the cluster
(--generators): an Indexed Job, spread over the nodes. The pods resolve the host names.
Certificates, headers and request lists are in a Secret that the Job owns. The counts of
all generators are added up exactly, and a lost generator is named. The Job is deleted at
the end. If this process is killed, the generators end with its connection, and
Kubernetes removes the Job. Servers must be allowed (--allow).

  --dry-run    print the Job and the Secret without the keys, and create nothing
  --find-knee  search for the highest rate that meets the thresholds of --expect`,
		RunE: func(c *cobra.Command, args []string) error {
			o.recorded = loadcli.RecordedCommand(c, args)
			return a.loadHTTP(c.Context(), o, args)
		},
	}
	f := c.Flags()
	o.Flags(f)
	f.Lookup("allow").Usage = "HOST:PORT or network that may be loaded; repeatable; all servers must be allowed"
	f.IntVar(&o.count, "generators", 1, "number of pods that generate the load")
	f.StringVar(&o.image, "image", "", "container image of fettle, of this version")
	f.StringVar(&o.cpu, "cpu", "100m", "CPU that each pod requests, such as 500m or 2")
	f.StringVar(&o.memory, "memory", "256Mi", "memory that each pod requests, which is also its limit, such as 1Gi")
	f.DurationVar(&o.startWithin, "start-within", 2*time.Minute, "maximum time until all pods run, such as 5m")
	f.BoolVar(&o.dryRun, "dry-run", false, "print the objects, and create nothing")
	cliutil.Between(f, "generators", 1, generators.MaxCount, 8)
	cliutil.Between(f, "start-within", time.Second, time.Hour, 2*time.Minute)
	for name, example := range map[string]string{"cpu": "500m", "memory": "256Mi"} {
		cliutil.Reads(f, name, example, quantity)
	}
	cliutil.Reads(f, "allow", "web.shop.svc:8080", func(word string) error {
		_, err := engine.ParseAllowed(c.Context(), []string{word}, outside{})
		return err
	})
	o.Rules(c)
	cliutil.Check(c, func([]string) error {
		if o.image == "" {
			return ui.Retry(ui.Usage, errors.New("--image is missing: a container image of fettle, of this version"), "", "--image=registry.example/fettle:1")
		}
		return o.CheckGenerators(o.count, "generator")
	})
	return c
}

// quantity rejects words that are not positive quantities of Kubernetes.
func quantity(word string) error {
	q, err := resource.ParseQuantity(word)
	if err == nil && q.Sign() <= 0 {
		err = errors.New("want more than 0")
	}
	if err != nil {
		return errors.New("want a quantity of Kubernetes above 0, such as 500m, 2 or 1Gi")
	}
	return nil
}

// Times that are added to the load's own for the deadline of the pods.
const (
	// toLose is the time without a report after which a generator is given up.
	toLose = 30 * time.Second
	// toEnd is for the last answers and the report.
	toEnd = 30 * time.Second
	// mostStages is more than a search takes.
	mostStages = 60
)

// deadline returns the time after which Kubernetes ends the pods, from their creation on.
func (o *loadHTTPOptions) deadline(p *load.Plan) time.Duration {
	length := p.Length() + p.Timeout
	if o.FindKnee {
		in := o.Range(p)
		stage, before := p.StageLength(in.Lowest, in.Each)
		length = o.WarmUp + mostStages*(stage+before+p.Timeout+toLose)
	}
	return o.startWithin + loadfleet.ToStart + loadcli.Prepare(p) + length + toLose + toEnd
}

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

// check returns the plan of the load with invented addresses, and errors that need no address: a
// name may be in an allowed network, which only the pods can tell.
func (o *loadHTTPOptions) check(ctx context.Context, r *loadcli.Requested) (*load.Plan, error) {
	again, job := *r, *r.Job
	again.Job = &job
	if slices.ContainsFunc(job.Allow, func(word string) bool { return strings.Contains(word, "/") }) {
		job.Allow = append(slices.Clone(job.Allow), unresolved.String())
	}
	return o.Plan(ctx, &again, outside{})
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

func (a *app) loadHTTP(ctx context.Context, o *loadHTTPOptions, urls []string) error {
	o.Defaults()
	o.Unobserved = func(threshold string) error {
		return ui.Without(fmt.Errorf("--expect: %q: kubectl fettle observes no server; fettle load http --observe does", threshold), "--expect")
	}
	asked, err := o.Read(urls)
	if err != nil {
		return cliutil.OrUsage(err)
	}
	asked.Job.NoLoopback = true
	expected, err := o.check(ctx, asked)
	if err != nil {
		return planError(err)
	}
	namespace, err := a.namespaceOfContext()
	if o.dryRun && err != nil {
		namespace, err = a.namespaceOr("default"), nil
	}
	if err != nil {
		return err
	}
	set := &generators.Set{Request: generators.Request{
		Namespace: namespace, Name: jobName(o.dryRun), Image: o.image, Count: o.count,
		CPU: resource.MustParse(o.cpu), Memory: resource.MustParse(o.memory), Deadline: o.deadline(expected),
	}}
	if set.Load, err = json.Marshal(asked.Job); err != nil {
		return err
	}
	if n := len(set.Load); n > generators.MaxLoad {
		return ui.Exit(ui.Usage, text.Errorf("certificates, headers, bodies and requests take %s, but a Secret holds at most %d; use a shorter --urls list or a smaller --body", text.Count(n, "byte"), generators.MaxLoad))
	}
	if o.dryRun {
		return a.printGenerators(set)
	}
	if set.Config, err = a.config(); err != nil {
		return err
	}
	if set.Server, err = mux.Connect(set.Config, 1); err != nil {
		return ui.Exit(ui.Usage, err)
	}
	return a.loadFrom(ctx, o, set, asked)
}

// jobName returns a new name for a Job, or an example.
func jobName(example bool) string {
	if example {
		return "fettle-load-example"
	}
	return "fettle-load-" + utilrand.String(5)
}

// printGenerators prints the objects. It leaves out the keys.
func (a *app) printGenerators(set *generators.Set) error {
	secret := set.Secret("")
	secret.OwnerReferences[0].UID = "UID-OF-THE-JOB"
	for name, value := range secret.Data {
		if secret.StringData == nil {
			secret.StringData = map[string]string{}
		}
		secret.StringData[name] = text.Count(len(value), "byte") + ", not shown"
	}
	secret.Data = nil
	for _, object := range []any{set.Job(), secret} {
		// Kubernetes sets the status, which has no omitempty.
		content, err := json.Marshal(object)
		if err != nil {
			return err
		}
		var fields map[string]any
		if err := json.Unmarshal(content, &fields); err != nil {
			return err
		}
		delete(fields, "status")
		printed, err := yaml.Marshal(fields)
		if err != nil {
			return err
		}
		fmt.Fprintf(a.screen.Out, "---\n%s", printed)
	}
	return nil
}

// loadFrom creates the generators, generates the load, and deletes them.
func (a *app) loadFrom(ctx context.Context, o *loadHTTPOptions, set *generators.Set, asked *loadcli.Requested) (err error) {
	store, err := a.loadStore(o.all)
	if err != nil {
		return err
	}
	records := evidence.Store{Dir: filepath.Join(store.Dir, "http")}
	if err := os.MkdirAll(store.Dir, 0o700); err != nil {
		return err
	}
	set.AnyUser = generators.OpenShift(ctx, set.Server)
	missing, err := set.Missing(ctx)
	var rights []string
	for _, r := range missing {
		rights = append(rights, r.String())
	}
	switch {
	case ctx.Err() != nil:
		return interruptedLoad("nothing was created")
	case err != nil:
		return err
	case len(missing) > 0:
		return ui.Hinted(ui.Failed, fmt.Errorf("nothing was created: rights are missing in namespace %s: %s", set.Namespace, strings.Join(rights, ", ")), "the manual page has a Role with all of them; kubectl auth can-i --list --namespace "+set.Namespace+" shows yours")
	}
	a.screen.Say("creating Job %s with %s and its Secret in namespace %s, each pod with %s of memory and a request for CPU %s; Kubernetes ends it at %s at the latest", set.Name, text.Count(set.Count, "pod"), set.Namespace, o.memory, o.cpu, time.Now().Add(set.Deadline).Local().Format(time.TimeOnly))
	var once sync.Once
	remove := func() (err error) {
		once.Do(func() {
			if err = set.Delete(ctx); err != nil {
				err = ui.Hinted(ui.Incomplete, err, fmt.Sprintf("Kubernetes removes it after its deadline, or: kubectl delete job %s --namespace %s", set.Name, set.Namespace))
			}
		})
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	if err := set.Create(ctx); err != nil {
		return interruptedOr(ctx, err, "nothing was sent")
	}
	rig, plan, err := a.loadRig(ctx, o, set, asked)
	if err != nil {
		return interruptedOr(ctx, err, "nothing was sent")
	}
	defer rig.Close()
	title := o.Title(plan)
	a.screen.Say("%s", title)
	run := &evidence.Run{Kind: load.Kind, Command: o.recorded, Version: a.version, Began: time.Now().UTC()}
	view := loadcli.NewView(a.screen, title)
	rig.Fleet.Quiet = view.Quiet
	result, err := measureHTTP(ctx, o, rig, plan, view)
	view.End()
	rig.Close()
	removed := remove()
	if err != nil {
		return errors.Join(interruptedOr(ctx, err, "the connections are closed"), removed)
	}
	if len(result.Slices) == 0 {
		return errors.Join(interruptedOr(ctx, result.Early(), "the connections are closed"), removed)
	}
	run.Ended, run.Verdict = time.Now().UTC(), result.Text
	return errors.Join(a.finishHTTP(ctx, set, records, run, result), removed)
}

func interruptedLoad(left string) error {
	return ui.Exit(ui.Interrupted, errors.New("interrupted: "+left))
}

func interruptedOr(ctx context.Context, err error, left string) error {
	if ctx.Err() != nil {
		return interruptedLoad(left)
	}
	return err
}

// loadRig waits for the pods, and connects them to the servers.
func (a *app) loadRig(ctx context.Context, o *loadHTTPOptions, set *generators.Set, asked *loadcli.Requested) (_ *load.Rig, _ *load.Plan, err error) {
	step, stop := a.screen.Steps(0)
	pods, err := set.Wait(ctx, o.startWithin, func(running int) {
		step(fmt.Sprintf("%d of %s run", running, text.Count(set.Count, "generator")), running, set.Count)
	})
	stop()
	if err != nil {
		return nil, nil, err
	}
	nodes := map[string]bool{}
	for _, p := range pods {
		nodes[p.Node] = true
	}
	a.screen.Say("%s on %s", text.Count(len(pods), "generator"), text.Count(len(nodes), "node"))
	f, err := loadfleet.Connect(ctx, set.Places(pods))
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	plan, err := o.Plan(ctx, asked, f.Clients[0])
	if err != nil {
		return nil, nil, planError(err)
	}
	asked.Job.Connections = (asked.Job.Connections + set.Count - 1) / set.Count
	if err := f.Prepare(ctx, asked.Job.Resolved(), loadfleet.ToStart+loadcli.Prepare(plan)); err != nil {
		return nil, nil, err
	}
	return &load.Rig{Prepared: load.Led(*plan, f), Fleet: f}, plan, nil
}

// measureHTTP generates the load, or with --find-knee searches for the highest rate.
func measureHTTP(ctx context.Context, o *loadHTTPOptions, rig *load.Rig, plan *load.Plan, view *loadcli.View) (*load.Result, error) {
	seed := rand.Uint64N(1 << 53)
	if o.FindKnee {
		return rig.FindKnee(ctx, o.Range(plan), seed, view.Second, view.Stage)
	}
	return rig.Run(ctx, seed, view.Second)
}

// finishHTTP records and prints a load.
func (a *app) finishHTTP(ctx context.Context, set *generators.Set, records evidence.Store, run *evidence.Run, result *load.Result) (err error) {
	run.Machine = machineOf(ctx, set)
	if run.Body, err = json.Marshal(result); err != nil {
		return err
	}
	err = loadcli.Gated(result)
	if result.Cut != nil {
		err = interruptedOr(ctx, result.Early(), "the connections are closed")
	}
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
		"generators": fmt.Sprint(set.Count), "generator image": set.Image, "generator namespace": set.Namespace, "generator CPU request": set.CPU.String(), "generator memory": set.Memory.String(),
	}}
	m.OS, _ = set.Server.Version(ctx)
	if uid, err := set.Server.Cluster(ctx); err == nil {
		sum := sha256.Sum256([]byte(uid))
		m.Hardware = hex.EncodeToString(sum[:8])
	}
	return m
}
