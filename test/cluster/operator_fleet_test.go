package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/yaml"

	"fettle.dev/fettle/internal/testkit/root"
	"fettle.dev/fettle/kube/deploy"
)

// The cluster of TestBenchOperator, and its promises.
const (
	fleetNodes  = 5000
	fleetTuneds = 200
	fleetRounds = 3
	// fleetWriters are the requests at a time, as the operator's.
	fleetWriters = 16

	fleetDecided = 2 * time.Second
	fleetMemory  = 120e6 // bytes, resident at the most
	fleetShare   = 5.0   // % of a core
	fleetFloor   = 1.5   // times the plain client's time for the same writes

	// Each second fleetChanges nodes get another label, and fleetReports report their status: 5,000
	// kubelets send 16.7 in a second, each one every five minutes (nodeStatusReportFrequency).
	fleetChanges = 10
	fleetReports = 20
	fleetFor     = time.Minute

	fleetTable = "table.json"
)

// fleetRow is a row of the table in docs/benchmarks.md.
type fleetRow struct{ What, Measured, Promised, Unmet string }

// TestBenchOperator measures the operator with 5,000 nodes of kwok and 200 Tuned objects, on a real
// API server and etcd on the same machine, and writes the table to docs/benchmarks.md.
func TestBenchOperator(t *testing.T) {
	if testing.Short() || os.Getenv("FETTLE_BENCH") != "1" && !root.IsInside(t) {
		t.Skip("measures; make bench runs it")
	}
	shared := t.TempDir()
	if !Inside(t, Setup{Within: time.Hour, Programs: []string{"./kube/cmd/kubectl-fettle"}, Shared: shared}) {
		if !t.Failed() {
			recordFleet(t, filepath.Join(shared, fleetTable))
		}
		return
	}
	b, a, start := newOperatorBench(t, fleetNodes, func(i int) map[string]string { return fleetLabels(i % fleetTuneds) })
	const configs = "kinds/plain/machineconfiguration.openshift.io_kubeletconfigs.yaml"
	text, err := fs.ReadFile(deploy.FS, configs)
	b.must(err)
	a.apply(configs, text)
	// The agents would be 5,000 pods, which the API server has to take meanwhile.
	b.must(b.Client.AppsV1().DaemonSets(tunedNamespace).Delete(t.Context(), "fettle-agent", meta.DeleteOptions{}))
	f := &fleet{operatorBench: b, group: make([]int, fleetNodes)}
	for i := range f.group {
		f.group[i] = i % fleetTuneds
	}
	for i := range fleetTuneds {
		a.apply("the Tuned objects", []byte(fleetTuned(i, 1)))
	}
	f.starts(start)
	f.restarts()
	f.oneText()
	f.changes()
	f.rests()
	b.must(f.operator.Stop())
	text, err = json.Marshal(f.rows)
	b.must(err)
	b.must(os.WriteFile(filepath.Join(SharedDir, fleetTable), text, 0o644))
}

// recordFleet writes the table from the rows in a file.
func recordFleet(t *testing.T, file string) {
	t.Helper()
	var rows []fleetRow
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &rows)
	}
	if err != nil {
		t.Fatal(err)
	}
	table := fmt.Sprintf("%d nodes of kwok, each with 50 images in its status, and %d Tuned objects with a profile each; kube-apiserver and etcd of %s on the same machine. %d rounds: the table shows medians, with the range in parentheses.\n\n| what | measured | promised |\n|---|---|---|\n",
		fleetNodes, fleetTuneds, fleetRelease(t), fleetRounds)
	var unmet []string
	for _, r := range rows {
		table += fmt.Sprintf("| %s | %s | %s |\n", r.What, r.Measured, r.Promised)
		if r.Unmet != "" {
			unmet = append(unmet, r.Unmet)
		}
	}
	root.Benchmark(t, "operator", table, unmet)
}

// fleetRelease is the release of Kubernetes that was measured.
func fleetRelease(t *testing.T) string {
	t.Helper()
	dir, _ := built(t)
	r, err := releaseOf(dir)
	if err != nil {
		t.Fatal(err)
	}
	return "Kubernetes " + strings.TrimPrefix(r.Kubernetes, "v")
}

// fleetLabels are the labels of a node in a group: the rule of one Tuned object matches it.
func fleetLabels(group int) map[string]string {
	return map[string]string{"group": fmt.Sprintf("g%03d", group), "node-role.kubernetes.io/worker": ""}
}

func fleetProfile(group int) string { return fmt.Sprintf("fleet-%03d", group) }

// fleetTuned is the Tuned object of a group.
func fleetTuned(group, swappiness int) string {
	return fmt.Sprintf(`
apiVersion: tuned.openshift.io/v1
kind: Tuned
metadata: {name: %[1]s, namespace: %[2]s}
spec:
  profile: [{name: %[1]s, data: "[main]\ninclude=openshift-node\n[sysctl]\nvm.swappiness=%[3]d\nnet.core.somaxconn=4096\n"}]
  recommend: [{profile: %[1]s, priority: %[4]d, match: [{label: group, value: g%03[5]d}]}]
`, fleetProfile(group), tunedNamespace, swappiness, 10+group%20, group)
}

// fleet is the cluster of the bench, the operator in it, and what was measured.
type fleet struct {
	*operatorBench
	operator *Program
	group    []int // of each node
	rows     []fleetRow
}

// row adds a row. within is the promise; unmet is what is said if it was not kept.
func (f *fleet) row(what, measured, promised string, kept bool) {
	r := fleetRow{What: what, Measured: measured, Promised: promised}
	if !kept {
		r.Unmet = what + ": " + measured + ", promised " + promised
	}
	f.rows = append(f.rows, r)
	f.t.Logf("%s: %s (promised: %s)", what, measured, promised)
}

// starts measures an operator that writes all Profiles, and alternately a plain client that creates
// the same objects with as many requests at a time: what the API server takes for itself.
func (f *fleet) starts(start func(...string) *Program) {
	f.t.Helper()
	var all, reading, cpu, plain, memory []float64
	for range fleetRounds {
		if f.operator == nil {
			f.operator = start("--leader-elect=false")
		} else {
			f.must(f.operator.Start())
		}
		f.written()
		end := time.Now()
		read := f.rulesRead()
		reading = append(reading, read.Sub(f.operator.started).Seconds())
		all = append(all, end.Sub(read).Seconds())
		cpu = append(cpu, cpuSeconds(f.t, f.operator))
		f.right()
		memory = append(memory, rss(f.t, f.operator)["VmHWM:"]/1e6)
		f.must(f.operator.Stop())

		profiles := f.takeAway()
		began := time.Now()
		f.create(profiles)
		plain = append(plain, time.Since(began).Seconds())
		f.takeAway()
	}
	f.must(f.operator.Start())
	f.written()
	times := middle(all) / middle(plain)
	f.row("a new operator: from its start until its caches have all objects, s", ofRounds(reading, "%.1f"), "-", true)
	f.row("from then on until all Profiles are written, s", ofRounds(all, "%.1f"), "-", true)
	f.row("a client that creates the same Profiles, 16 at a time, s", ofRounds(plain, "%.1f"), "-", true)
	f.row("the operator's time for them / the client's", fmt.Sprintf("%.2f", times), fmt.Sprintf("at most %.1f", fleetFloor), times <= fleetFloor)
	f.row("the operator's processor time until then, s", ofRounds(cpu, "%.1f"), "-", true)
	f.row("its resident memory at the most, MB", ofRounds(memory, "%.0f"), fmt.Sprintf("at most %.0f", fleetMemory/1e6), slices.Max(memory) <= fleetMemory/1e6)
}

// restarts measures how long an operator takes that finds all Profiles as they should be.
func (f *fleet) restarts() {
	f.t.Helper()
	var took, cpu []float64
	for range fleetRounds {
		f.must(f.operator.Restart())
		f.Wait("all nodes to be decided", time.Minute, func(context.Context) error {
			n, err := f.metric(`fettle_operator_nodes{state="decided"}`)
			if err == nil && n != fleetNodes {
				err = fmt.Errorf("%v are", n)
			}
			return err
		})
		took = append(took, time.Since(f.rulesRead()).Seconds())
		cpu = append(cpu, cpuSeconds(f.t, f.operator))
	}
	if n := f.writes(); n != 0 {
		f.t.Errorf("a restarted operator wrote %v Profiles, and nothing had changed", n)
	}
	f.row("a restarted operator: from the state of its caches until all nodes are decided, s", ofRounds(took, "%.2f"), fmt.Sprintf("at most %.0f", fleetDecided.Seconds()), middle(took) <= fleetDecided.Seconds())
	f.row("its processor time until then, s", ofRounds(cpu, "%.1f"), "-", true)
}

// oneText measures the change of one profile's text: all nodes are decided, and those of one group
// are written.
func (f *fleet) oneText() {
	f.t.Helper()
	const members = fleetNodes / fleetTuneds
	var took []float64
	for round := range fleetRounds {
		var o unstructured.Unstructured
		f.must(yaml.Unmarshal([]byte(fleetTuned(round, 100+round)), &o.Object))
		spec, _, _ := unstructured.NestedMap(o.Object, "spec")
		before := f.writes()
		f.patchTuned(fleetProfile(round), spec)
		began := time.Now()
		f.Wait("the text to be on all nodes of the group", time.Minute, func(context.Context) error {
			if n := f.writes() - before; n != members {
				return fmt.Errorf("%v Profiles were written", n)
			}
			return nil
		})
		took = append(took, time.Since(began).Seconds())
		for i := round; i < fleetNodes; i += fleetTuneds {
			p, err := f.profiles().Get(f.t.Context(), nodeName(i), meta.GetOptions{})
			f.must(err)
			if all, _ := json.Marshal(p.Object["spec"]); !strings.Contains(string(all), fmt.Sprint("vm.swappiness=", 100+round)) {
				f.t.Errorf("%s has the old text", nodeName(i))
			}
		}
	}
	f.row(fmt.Sprintf("the text of one profile changes: until its %d nodes have it, s", members), ofRounds(took, "%.2f"), fmt.Sprintf("at most %.0f", fleetDecided.Seconds()), middle(took) <= fleetDecided.Seconds())
}

// changes measures the operator while the labels of some nodes change in each second, so that each
// gets another profile, and others report their status.
func (f *fleet) changes() {
	f.t.Helper()
	before, queued, worked := cpuSeconds(f.t, f.operator), f.mean(waiting), f.mean(working)
	writes, began := f.writes(), time.Now()
	tick := time.NewTicker(time.Second / fleetChanges)
	defer tick.Stop()
	const changes = int(fleetFor / time.Second * fleetChanges)
	var sent sync.WaitGroup
	for i := range changes {
		f.group[i] = (f.group[i] + 1) % fleetTuneds
		sent.Go(func() {
			f.patchNode(i, map[string]any{"metadata": map[string]any{"labels": fleetLabels(f.group[i])}})
		})
		for k := range fleetReports / fleetChanges {
			sent.Go(func() { f.patchNode(fleetNodes/2+2*i+k, fleetStatus(time.Now()), "status") })
		}
		<-tick.C
	}
	sent.Wait()
	took := time.Since(began).Seconds()
	share := 100 * (cpuSeconds(f.t, f.operator) - before) / took
	f.right()
	if n := f.writes() - writes; n < float64(changes) || n > 1.1*float64(changes) {
		f.t.Errorf("%v writes of Profiles for %d changed nodes", n, changes)
	}
	rate := float64(changes) / took
	if rate < 0.9*fleetChanges {
		f.t.Errorf("only %.1f nodes were changed in a second: the machine has too much to do", rate)
	}
	queued, worked = f.mean(waiting).since(queued), f.mean(working).since(worked)
	f.row(fmt.Sprintf("%.0f changed labels and %.0f reports of status in a second, for %.0f s: share of a core, %%", rate, fleetReports/fleetChanges*rate, took),
		fmt.Sprintf("%.1f", share), fmt.Sprintf("at most %.0f", fleetShare), share <= fleetShare)
	f.row("from the event of a changed label until the Profile is written, ms on average", fmt.Sprintf("%.1f", queued.ms()+worked.ms()), "-", true)
}

// rests measures the operator's memory once nothing has changed for a while.
func (f *fleet) rests() {
	f.t.Helper()
	most := rss(f.t, f.operator)["VmHWM:"] / 1e6
	f.row("resident memory of a restarted operator at the most, until then, MB", fmt.Sprintf("%.0f", most), fmt.Sprintf("at most %.0f", fleetMemory/1e6), most <= fleetMemory/1e6)
	time.Sleep(15 * time.Second) // it rests when it has done nothing for five
	size := rss(f.t, f.operator)
	f.row("its resident memory at rest after that, MB (private)", fmt.Sprintf("%.0f (%.0f)", size["VmRSS:"]/1e6, size["RssAnon:"]/1e6), "-", true)
}

// fleetStatus is what a kubelet reports of itself: here only the time of its conditions has changed.
func fleetStatus(now time.Time) map[string]any {
	return map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "lastHeartbeatTime": now.UTC().Format(time.RFC3339)}}}}
}

func (f *fleet) patchNode(i int, patch map[string]any, subresources ...string) {
	f.t.Helper()
	text, _ := json.Marshal(patch)
	if _, err := f.Client.CoreV1().Nodes().Patch(f.t.Context(), nodeName(i), types.StrategicMergePatchType, text, meta.PatchOptions{}, subresources...); err != nil {
		f.t.Error(err) // in a goroutine of its own
	}
}

// rulesRead is when the operator's caches had all objects, by its log.
func (f *fleet) rulesRead() time.Time {
	f.t.Helper()
	log := f.operator.Log(1 << 20)
	m := regexp.MustCompile(fmt.Sprintf(`(?m)^time=(\S+) .*msg="rules read" "Tuned objects"=%d\b`, fleetTuneds+1)).FindStringSubmatch(log)
	if m == nil {
		f.t.Fatalf("the log does not say when the rules were read:\n%s", log)
	}
	at, err := time.Parse(time.RFC3339, m[1])
	f.must(err)
	return at
}

// written waits until there are as many Profiles as nodes.
func (f *fleet) written() {
	f.t.Helper()
	f.Wait("all Profiles", 5*time.Minute, func(ctx context.Context) error {
		n, err := f.count(ctx)
		if err == nil && n != fleetNodes {
			err = fmt.Errorf("there are %d", n)
		}
		return err
	})
}

// count returns the number of Profiles without reading them all.
func (f *fleet) count(ctx context.Context) (int64, error) {
	list, err := f.profiles().List(ctx, meta.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	n := int64(len(list.Items))
	if more := list.GetRemainingItemCount(); more != nil {
		n += *more
	}
	return n, nil
}

// right waits until each node has the profile of its group.
func (f *fleet) right() {
	f.t.Helper()
	f.Wait("all Profiles to be right", 5*time.Minute, func(ctx context.Context) error {
		list, err := f.profiles().List(ctx, meta.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return err
		}
		wrong := len(f.group) - len(list.Items)
		for i := range list.Items {
			p := &list.Items[i]
			var number int
			if _, err := fmt.Sscanf(p.GetName(), "kwok-%d", &number); err != nil || text(p, "spec", "config", "tunedProfile") != fleetProfile(f.group[number]) {
				wrong++
			}
		}
		if wrong != 0 {
			return fmt.Errorf("%d are not", wrong)
		}
		return nil
	})
}

// takeAway deletes all Profiles and returns them.
func (f *fleet) takeAway() []unstructured.Unstructured {
	f.t.Helper()
	list, err := f.profiles().List(f.t.Context(), meta.ListOptions{})
	f.must(err)
	f.each(len(list.Items), func(ctx context.Context, in dynamic.ResourceInterface, i int) error {
		return in.Delete(ctx, list.Items[i].GetName(), meta.DeleteOptions{})
	})
	return list.Items
}

// create creates Profiles with the content of others, and watches them as the operator does.
func (f *fleet) create(profiles []unstructured.Unstructured) {
	f.t.Helper()
	w, err := f.profiles().Watch(f.t.Context(), meta.ListOptions{})
	f.must(err)
	defer w.Stop()
	go func() {
		for range w.ResultChan() {
		}
	}()
	f.each(len(profiles), func(ctx context.Context, in dynamic.ResourceInterface, i int) error {
		p := unstructured.Unstructured{Object: map[string]any{"apiVersion": profiles[i].GetAPIVersion(), "kind": profiles[i].GetKind(), "spec": profiles[i].Object["spec"]}}
		p.SetName(profiles[i].GetName())
		p.SetLabels(profiles[i].GetLabels())
		p.SetAnnotations(profiles[i].GetAnnotations())
		_, err := in.Create(ctx, &p, meta.CreateOptions{})
		return err
	})
}

// each sends requests about the Profiles as the operator's account, fleetWriters at a time.
func (f *fleet) each(count int, send func(ctx context.Context, in dynamic.ResourceInterface, i int) error) {
	f.t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", f.kubeconfig)
	f.must(err)
	config.QPS = -1
	client, err := dynamic.NewForConfig(config)
	f.must(err)
	in := client.Resource(profileResource).Namespace(tunedNamespace)
	failed := make([]error, fleetWriters)
	var all sync.WaitGroup
	for w := range fleetWriters {
		all.Go(func() {
			for i := w; i < count && failed[w] == nil; i += fleetWriters {
				failed[w] = send(f.t.Context(), in, i)
			}
		})
	}
	all.Wait()
	f.must(errors.Join(failed...))
}

func middle(values []float64) float64 { return slices.Sorted(slices.Values(values))[len(values)/2] }

// ofRounds is the median with the range.
func ofRounds(values []float64, format string) string {
	return fmt.Sprintf(format+" ("+format+"-"+format+")", middle(values), slices.Min(values), slices.Max(values))
}
