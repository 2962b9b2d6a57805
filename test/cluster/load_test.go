package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// same compares two worlds.
func same(before, after map[string]string) error {
	var all []error
	for name, uid := range before {
		if after[name] != uid {
			all = append(all, fmt.Errorf("%s was %s and is %q", name, uid, after[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if before[name] == "" {
			all = append(all, fmt.Errorf("%s is left", name))
		}
	}
	if len(all) > 10 {
		all = append(all[:10], fmt.Errorf("and %d more", len(all)-10))
	}
	return errors.Join(all...)
}

const objectsOfALoad = `apiVersion: v1
kind: ConfigMap
metadata: {name: "map-${IDENTIFIER}"}
data: {text: "%s"}
---
apiVersion: v1
kind: Secret
metadata: {name: "secret-${IDENTIFIER}"}
stringData: {number: "${IDENTIFIER}"}
`

// TestLoadKilled: whenever a run is killed, resume makes exactly what is missing, and undo
// removes exactly what was made, killed itself or not; what was in a reused namespace
// stays, and so does what another user puts into a namespace of the run.
func TestLoadKilled(t *testing.T) {
	t.Parallel()
	if !Inside(t, Setup{Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{})
	l := newLoader(t, c)
	file := l.write("load.yaml", `ClusterLoader:
  projects:
  - {num: 3, basename: fresh, ifexists: fail, objects: [{num: 150, file: objects.yaml}]}
  - {num: 1, basename: shared, ifexists: reuse, objects: [{num: 300, file: objects.yaml}]}
`)
	l.write("objects.yaml", fmt.Sprintf(objectsOfALoad, strings.Repeat("x", 1000)))
	const planned = 3 + 3*300 + 1 + 600

	if _, err := c.Client.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "shared0"}}, meta.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	foreign := func(space, name string) {
		t.Helper()
		if _, err := c.Client.CoreV1().ConfigMaps(space).Create(ctx, &core.ConfigMap{ObjectMeta: meta.ObjectMeta{Name: name}}, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	foreign("shared0", "somebodys")
	before := c.world(ctx)

	rounds := 2
	if os.Getenv("FETTLE_TEST_NIGHTLY") == "1" {
		rounds = 10
	}
	for round := range rounds {
		r := rand.New(rand.NewPCG(7, uint64(round)))
		wait := func() time.Duration {
			return 50*time.Millisecond + time.Duration(r.Int64N(int64(1500*time.Millisecond)))
		}
		kills, adopted := 0, 0
		killed := l.kill(wait(), "run", "--rate=1500/s", file)
		for killed {
			kills++
			if l.runs() <= round { // before it had a journal
				killed = l.kill(wait(), "run", "--rate=1500/s", file)
				continue
			}
			if kills >= 4 || r.IntN(3) == 0 {
				break
			}
			killed = l.kill(wait(), "resume")
		}
		half := c.world(ctx)
		x, _ := l.run(0, "resume")
		adopted += x.adopted
		whole := c.world(ctx)
		for name, uid := range half {
			if whole[name] != uid {
				t.Errorf("round %d: %s was made again", round, name)
			}
		}
		if n := len(whole) - len(before); n != planned-1 {
			t.Errorf("round %d: %d objects more than before, want %d", round, n, planned-1)
		}
		if x.planned != planned || x.before+x.created+x.reused != planned || x.unmakeable != 0 {
			t.Errorf("round %d: %+v", round, x)
		}
		undos := 0
		for l.kill(wait(), "undo") {
			undos++
			if undos == 3 {
				break
			}
		}
		l.run(0, "undo")
		if err := same(before, c.world(ctx)); err != nil {
			t.Errorf("round %d: after the undo:\n%v", round, err)
		}
		t.Logf("round %d: the run killed %d times, %d objects adopted, the undo killed %d times", round, kills, adopted, undos)
		if t.Failed() {
			return
		}
	}

	t.Run("left alone", func(t *testing.T) {
		l := &loader{t, c, l.state, l.dir}
		made, _ := l.run(0, "run", file)
		_, said := l.run(4, "run", file)
		if !strings.Contains(said, "already exists; nothing created") {
			t.Errorf("a run over what is there: %s", said)
		}
		foreign("fresh1", "somebodys-too")
		// It has the run's label as well, as a copy of one of the run's objects has.
		label := fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, "fettle.dev/load-run", made.Run)
		if _, err := c.Client.CoreV1().ConfigMaps("fresh1").Patch(ctx, "somebodys-too", types.MergePatchType, []byte(label), meta.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
		// Ours is deleted by a user, who makes one of the same name.
		if err := c.Client.CoreV1().ConfigMaps("shared0").Delete(ctx, "map-7", meta.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		foreign("shared0", "map-7")
		now := c.world(ctx)
		x, _ := l.run(6, "undo")
		if len(x.Kept) != 1 || x.Kept[0].Object != "Namespace fresh1" || !strings.Contains(x.Kept[0].Why, "somebodys-too") {
			t.Errorf("the undo of a namespace with another's object: %+v", x)
		}
		for name, uid := range before {
			now[name] = uid
		}
		keep := maps.Clone(before)
		for _, name := range []string{"Namespace /fresh1", "ConfigMap fresh1/somebodys-too", "ConfigMap shared0/map-7"} {
			keep[name] = now[name]
		}
		if err := same(keep, c.world(ctx)); err != nil {
			t.Errorf("after the undo:\n%v", err)
		}
		// Once it is gone the undo ends.
		if err := c.Client.CoreV1().ConfigMaps("fresh1").Delete(ctx, "somebodys-too", meta.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		l.run(0, "undo")
		delete(keep, "Namespace /fresh1")
		delete(keep, "ConfigMap fresh1/somebodys-too")
		if err := same(keep, c.world(ctx)); err != nil {
			t.Errorf("after the second undo:\n%v", err)
		}
	})

	t.Run("ifexists delete", func(t *testing.T) {
		l := &loader{t, c, l.state, l.dir}
		file := l.write("delete.yaml", "ClusterLoader: {projects: [{num: 1, basename: again, ifexists: delete, objects: [{num: 5, file: objects.yaml}]}]}\n")
		l.run(0, "run", file)
		first, err := c.Client.CoreV1().Namespaces().Get(ctx, "again0", meta.GetOptions{})
		if err != nil {
			t.Fatal(err)
		}
		l.run(0, "run", file)
		second, err := c.Client.CoreV1().Namespaces().Get(ctx, "again0", meta.GetOptions{})
		if err != nil || first.UID == second.UID {
			t.Errorf("the namespace of an earlier run was not made anew: %v", err)
		}
		l.run(0, "undo")
		if _, err := c.Client.CoreV1().Namespaces().Create(ctx, &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: "again0"}}, meta.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, said := l.run(4, "run", file); !strings.Contains(said, "was not created by fettle") {
			t.Errorf("somebody's namespace: %s", said)
		}
	})

	t.Run("interrupted", func(t *testing.T) {
		before := c.world(ctx)
		l := &loader{t, c, l.state, l.dir}
		cmd, out, errs := l.command("run", "--rate=50/s", file) // for half a minute
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		// In the middle: the namespaces are there, and some of what comes into them.
		err := wait("something to be made", 3*time.Minute, func(ctx context.Context) error {
			if made := len(c.world(ctx)) - len(before); made < 10 {
				return fmt.Errorf("%d objects", made)
			}
			return nil
		})
		if err != nil {
			t.Errorf("%v\n%s\n%s", err, out, errs)
		}
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
		if got := cmd.ProcessState.ExitCode(); got != 130 {
			t.Errorf("after Ctrl-C: exit code %d\n%s\n%s", got, out, errs)
		}
		if err := same(before, c.world(ctx)); err != nil {
			t.Errorf("after Ctrl-C:\n%v", err)
		}
	})

	t.Run("brake", func(t *testing.T) {
		before := c.world(ctx)
		l := &loader{t, c, l.state, l.dir}
		x, said := l.run(4, "run", "--rate=50/s", "--etcd-quota=1MiB", "--beyond-maximums", file)
		if x.State != "stopped by the brake" || !strings.Contains(said, "etcd's database has") || x.created == 0 || x.created >= planned {
			t.Errorf("%+v\n%s", x, said)
		}
		l.run(0, "undo")
		if err := same(before, c.world(ctx)); err != nil {
			t.Error(err)
		}
	})

	t.Run("missing kinds", func(t *testing.T) {
		l := &loader{t, c, l.state, l.dir}
		l.write("route.yaml", "apiVersion: route.openshift.io/v1\nkind: Route\nmetadata: {name: \"r-${IDENTIFIER}\"}\n")
		file := l.write("missing.yaml", "ClusterLoader: {projects: [{num: 1, basename: routes, objects: [{num: 2, file: route.yaml}]}]}\n")
		x, _ := l.run(4, "plan", file)
		if len(x.Missing) != 1 || x.Missing[0].Kind != "Route" {
			t.Errorf("the plan says: %+v", x)
		}
		if _, said := l.run(4, "run", file); !strings.Contains(said, "the cluster has no Route of route.openshift.io/v1") {
			t.Errorf("the run says: %s", said)
		}
	})
}
