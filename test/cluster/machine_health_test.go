package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	apps "k8s.io/api/apps/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
)

// healthBench is a cluster with simulated machines and an operator with the rights of
// kube/deploy/.
type healthBench struct {
	*cloud
	operator *operatorBench
	objects  *applier
	start    func(options ...string) *Program
}

// TestMachineHealth: the operator and MachineHealthChecks on a real API server, with
// the OpenShift 4.4 guide's tables (3.4.1). The machines are simulated (see cloud), their nodes are
// kwok's.
func TestMachineHealth(t *testing.T) {
	if !Inside(t, Setup{Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	b := newHealthBench(t, Options{})
	b.others()
	b.rival()
	p := b.start("--adopt=machines", "--lease=3s")
	b.tables()
	b.together()
	b.leftAlone()
	b.timeout()
	b.pauses()
	b.killed(p)
	b.explained()
	b.c.must(p.Stop())
}

// newHealthBench starts a cluster with the options, and what is needed in addition.
func newHealthBench(t *testing.T, o Options) *healthBench {
	c := Start(t, Options{
		Node: o.Node,
		Kwok: 1, KwokNode: func(_ int, n *core.Node) { n.Spec.Unschedulable = true },
		// Until kwok sees a node its lease is not renewed.
		Flags: map[string][]string{"kube-controller-manager": {"--node-monitor-grace-period=10m"}},
	})
	a := c.applier(t)
	a.apply("the kinds of machines", []byte(machineKinds))
	a.deploy(".")
	a.deploy("machines")
	account := "system:serviceaccount:" + tunedNamespace + ":fettle-operator"
	kubeconfig, err := c.KubeconfigOf(account, "system:serviceaccounts", "system:serviceaccounts:"+tunedNamespace, "system:authenticated")
	c.must(err)
	b := &healthBench{cloud: c.cloud(t, a.dynamic), objects: a, operator: &operatorBench{t: t, Cluster: c, dynamic: a.dynamic}}
	t.Log("the machines of this test are a simulation: there is no cloud behind them")
	b.start = func(options ...string) *Program {
		t.Helper()
		p := c.program(b.operator.ready, append([]string{
			"kubectl-fettle", "operator", "--kubeconfig=" + kubeconfig, "--metrics-address=" + operatorMetrics, "--metrics-open", "--health-address=" + operatorHealth,
		}, options...)...)
		p.log = strings.TrimSuffix(p.log, ".log") + fmt.Sprintf("-%d.log", len(c.programs))
		c.must(p.Start())
		return p
	}
	return b
}

// check makes a MachineHealthCheck of a set: a node that is broken for five minutes is
// ill.
func (b *healthBench) check(name, set string, limit any) {
	b.t.Helper()
	c := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineHealthCheck", "metadata": map[string]any{"name": name},
		"spec": map[string]any{
			"selector":            map[string]any{"matchLabels": map[string]any{setLabel: set}},
			"unhealthyConditions": []any{map[string]any{"type": broken, "status": "True", "timeout": "300s"}},
			"maxUnhealthy":        limit, "nodeStartupTimeout": "10m",
		},
	}}
	if _, err := b.in("machinehealthchecks").Create(b.t.Context(), c, meta.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *healthBench) dropCheck(name string) {
	b.t.Helper()
	if err := b.in("machinehealthchecks").Delete(b.t.Context(), name, meta.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// says waits until a check has a condition with a text in it.
func (b *healthBench) says(name, kind, status, reason, message string, within time.Duration) {
	b.t.Helper()
	b.c.Wait(fmt.Sprintf("%s of %s to be %s %s", kind, name, status, reason), within, func(ctx context.Context) error {
		c, err := b.in("machinehealthchecks").Get(ctx, name, meta.GetOptions{})
		if err != nil {
			return err
		}
		all, _, _ := unstructured.NestedSlice(c.Object, "status", "conditions")
		for _, x := range all {
			x := x.(map[string]any)
			if said, _ := x["message"].(string); x["type"] == kind && x["status"] == status && x["reason"] == reason && strings.Contains(said, message) {
				return nil
			}
		}
		return fmt.Errorf("its conditions are %v, want %q", all, message)
	})
}

// numbers are what the status of a check says.
func (b *healthBench) numbers(name string) string {
	b.t.Helper()
	c, err := b.in("machinehealthchecks").Get(b.t.Context(), name, meta.GetOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	var out []string
	for _, field := range []string{"expectedMachines", "currentHealthy", "remediationsAllowed"} {
		n, _, _ := unstructured.NestedInt64(c.Object, "status", field)
		out = append(out, fmt.Sprint(n))
	}
	return strings.Join(out, " ")
}

// flight follows all machines, and knows how many were being deleted at once at most,
// and which have been.
type flight struct {
	stop    func()
	most    int
	deleted []string
}

func (b *healthBench) follow() *flight {
	b.t.Helper()
	list, err := b.in("machines").List(b.t.Context(), meta.ListOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	w, err := b.in("machines").Watch(b.t.Context(), meta.ListOptions{ResourceVersion: list.GetResourceVersion()})
	if err != nil {
		b.t.Fatal(err)
	}
	f := &flight{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		now := map[string]bool{}
		for e := range w.ResultChan() {
			m, ok := e.Object.(*unstructured.Unstructured)
			switch {
			case !ok:
			case e.Type == watch.Deleted:
				delete(now, m.GetName())
			case m.GetDeletionTimestamp() != nil && !now[m.GetName()]:
				now[m.GetName()] = true
				f.deleted = append(f.deleted, m.GetName())
			}
			f.most = max(f.most, len(now))
		}
	}()
	f.stop = func() { w.Stop(); <-done }
	return f
}

// renewed waits until none of the machines is there any more, and the set is whole again.
func (b *healthBench) renewed(set string, replicas int, old []string, within time.Duration) {
	b.t.Helper()
	b.c.Wait("the ill machines of "+set+" to be made anew", within, func(context.Context) error {
		for _, m := range b.machines(set) {
			if slices.Contains(old, m.GetName()) {
				time.Sleep(time.Duration(replicas) * time.Millisecond) // a list of so many is much to ask for
				return fmt.Errorf("machine %s is there still", m.GetName())
			}
		}
		return nil
	})
	b.settled(set, replicas)
}

// rival: with OpenShift's own controller nothing is deleted, and it is named.
func (b *healthBench) rival() {
	b.t.Helper()
	labels := map[string]string{"k8s-app": "controller"}
	d := &apps.Deployment{ObjectMeta: meta.ObjectMeta{Name: "machine-api-controllers", Namespace: machineNamespace}, Spec: apps.DeploymentSpec{
		Selector: &meta.LabelSelector{MatchLabels: labels},
		Template: core.PodTemplateSpec{ObjectMeta: meta.ObjectMeta{Labels: labels}, Spec: core.PodSpec{Containers: []core.Container{{Name: "machine-healthcheck-controller", Image: Workload}}}},
	}}
	if _, err := b.c.Client.AppsV1().Deployments(machineNamespace).Create(b.t.Context(), d, meta.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.makeSet("first", 3, nil)
	old := b.ill("first", 1, time.Hour)
	b.check("first", "first", "40%")
	p := b.start("--lease=3s")
	b.says("first", "Remediating", "False", "OtherController", "Deployment openshift-machine-api/machine-api-controllers) remediates machines of these checks", time.Minute)
	time.Sleep(3 * time.Second)
	if m := b.machines("first"); m[0].GetName() != old[0] || m[0].GetDeletionTimestamp() != nil || b.numbers("first") != "0 0 0" {
		b.t.Errorf("beside another controller: %s, status %s", m[0].GetName(), b.numbers("first"))
	}
	b.c.must(p.Stop())
	b.dropCheck("first")
	b.dropSet("first")
}

// tables are those of the OpenShift 4.4 guide, section 3.4.1.
func (b *healthBench) tables() {
	b.t.Helper()
	for i, c := range []struct {
		limit         any
		machines, ill int
		acts          bool
		status        string
		says          string
	}{
		{int64(2), 25, 2, true, "25 25 2", "maxUnhealthy is 2; 2 are unhealthy: remediation is allowed"},
		{int64(2), 25, 3, false, "25 22 0", "maxUnhealthy is 2; 3 are unhealthy: nothing is remediated"},
		{"40%", 25, 10, true, "25 25 10", "40 % of 25 machines is 10; 10 are unhealthy: remediation is allowed"},
		{"40%", 25, 11, false, "25 14 0", "40 % of 25 machines is 10; 11 are unhealthy: nothing is remediated"},
		{"40%", 6, 2, true, "6 6 2", "40 % of 6 machines is 2 (2.4 rounded down); 2 are unhealthy: remediation is allowed"},
		{"40%", 6, 3, false, "6 3 0", "40 % of 6 machines is 2 (2.4 rounded down); 3 are unhealthy: nothing is remediated"},
	} {
		name := fmt.Sprintf("table-%d", i)
		b.makeSet(name, c.machines, nil)
		old := b.ill(name, c.ill, time.Hour)
		f := b.follow()
		began := time.Now()
		if !c.acts {
			b.check(name, name, c.limit)
			b.says(name, "RemediationAllowed", "False", "TooManyUnhealthy", c.says, time.Minute)
			time.Sleep(5 * time.Second)
			if f.stop(); len(f.deleted) > 0 || b.numbers(name) != c.status {
				b.t.Errorf("%s: deleted %v; status %s, want %s", c.says, f.deleted, b.numbers(name), c.status)
			}
		} else {
			b.check(name, name, c.limit)
			b.renewed(name, c.machines, old, 3*time.Minute)
			b.says(name, "Remediating", "False", "NothingToDo", "", time.Minute)
			f.stop()
			slices.Sort(f.deleted)
			// A machine that has only just joined is pending until the operator hears of it.
			b.c.Wait("the status to be "+c.status, time.Minute, func(context.Context) error {
				if got := b.numbers(name); got != c.status {
					return fmt.Errorf("it is %s", got)
				}
				return nil
			})
			if f.most != 1 || !slices.Equal(f.deleted, old) || b.numbers(name) != c.status {
				b.t.Errorf("%s: %d at once, deleted %v, want %v; status %s, want %s", c.says, f.most, f.deleted, old, b.numbers(name), c.status)
			}
		}
		b.t.Logf("%s: %d deleted, %d at once, %.1f s", c.says, len(f.deleted), f.most, time.Since(began).Seconds())
		b.dropCheck(name)
		b.dropSet(name)
	}
}

// together: of two checks that have something to remedy at once one waits for the other,
// machine by machine, and says so.
func (b *healthBench) together() {
	b.t.Helper()
	var old []string
	for _, name := range []string{"east", "west"} {
		b.makeSet(name, 5, nil)
	}
	old = append(old, b.ill("east", 2, time.Hour)...)
	old = append(old, b.ill("west", 2, 2*time.Hour)...)
	f := b.follow()
	for _, name := range []string{"east", "west"} {
		b.check(name, name, "40%")
	}
	b.says("east", "Remediating", "False", "Waiting", "nothing is remediated: only one machine is replaced at a time, and machine west-", time.Minute)
	for _, name := range []string{"east", "west"} {
		b.renewed(name, 5, old, 3*time.Minute)
		b.says(name, "Remediating", "False", "NothingToDo", "", time.Minute)
	}
	f.stop()
	order := slices.Clone(f.deleted)
	slices.Sort(f.deleted)
	slices.Sort(old)
	if f.most != 1 || !slices.Equal(f.deleted, old) {
		b.t.Errorf("two checks: %d at once, deleted %v, want %v", f.most, f.deleted, old)
	}
	b.t.Logf("two checks with two ill machines each: %d at once, in the order %v", f.most, order)
	for _, name := range []string{"east", "west"} {
		b.dropCheck(name)
		b.dropSet(name)
	}
}

// leftAlone: a machine without an owner, and those of the control plane.
func (b *healthBench) leftAlone() {
	b.t.Helper()
	b.makeSet("masters", 3, map[string]string{"machine.openshift.io/cluster-api-machine-role": "master"})
	old := b.ill("masters", 1, time.Hour)
	b.check("masters", "masters", "40%")
	b.says("masters", "Remediating", "False", "LeftAlone", "machine "+old[0]+" not remediated: control plane machine", time.Minute)
	// As in the source's example: 40 %, 3 machines, and not all of them healthy.
	if n := b.numbers("masters"); n != "3 2 0" {
		b.t.Errorf("status %s", n)
	}
	m := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "machine.openshift.io/v1beta1", "kind": "Machine", "spec": map[string]any{},
		"metadata": map[string]any{"name": "nobodys", "labels": map[string]any{setLabel: "nobodys"}, "finalizers": []any{cloudFinalizer}},
	}}
	if _, err := b.in("machines").Create(b.t.Context(), m, meta.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.settled("nobodys", 1)
	b.ill("nobodys", 1, time.Hour)
	b.check("nobodys", "nobodys", "100%")
	b.says("nobodys", "Remediating", "False", "LeftAlone", "machine nobodys not remediated: no machine set or other controller owns it", time.Minute)
	time.Sleep(3 * time.Second)
	if len(b.machines("masters")) != 3 || b.machines("masters")[0].GetName() != old[0] || len(b.machines("nobodys")) != 1 {
		b.t.Error("a machine was deleted that is to be left alone")
	}
	for _, name := range []string{"masters", "nobodys"} {
		b.dropCheck(name)
	}
	b.dropSet("masters")
	if err := b.in("machines").Delete(b.t.Context(), "nobodys", meta.DeleteOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

// timeout: a machine that becomes ill by time alone is remedied when its time is over.
func (b *healthBench) timeout() {
	b.t.Helper()
	b.makeSet("slow", 3, nil)
	b.check("slow", "slow", "40%")
	b.says("slow", "Remediating", "False", "NothingToDo", "", time.Minute)
	old := b.ill("slow", 1, 290*time.Second)
	began := time.Now()
	b.c.Wait("it to count as unhealthy", 5*time.Second, func(context.Context) error {
		if n := b.numbers("slow"); n != "3 2 0" {
			return fmt.Errorf("status %s", n)
		}
		return nil
	})
	if m := b.machines("slow"); m[0].GetName() != old[0] || m[0].GetDeletionTimestamp() != nil {
		b.t.Error("it was deleted before its time")
	}
	b.renewed("slow", 3, old, time.Minute)
	b.t.Logf("ten seconds before its timeout: made anew after %.1f s", time.Since(began).Seconds())
	if took := time.Since(began); took < 9*time.Second {
		b.t.Errorf("it was deleted after %s", took)
	}
	b.dropCheck("slow")
	b.dropSet("slow")
}

// pauses: nothing is remediated while a scale, or an upgrade, runs; a scale that was
// killed does not stop it for ever.
func (b *healthBench) pauses() {
	b.t.Helper()
	ctx := b.t.Context()
	who, seconds, now := "test/1", int32(10), meta.NowMicro()
	lease := &coordination.Lease{ObjectMeta: meta.ObjectMeta{Name: "fettle-scale", Namespace: machineNamespace, Annotations: map[string]string{"fettle.dev/scale": "waiting to 9 machines"}}}
	lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = &who, &seconds, &now
	b.makeSet("waiting", 3, nil)
	old := b.ill("waiting", 1, time.Hour)
	if _, err := b.c.Client.CoordinationV1().Leases(machineNamespace).Create(ctx, lease, meta.CreateOptions{}); err != nil {
		b.t.Fatal(err)
	}
	b.check("waiting", "waiting", "40%")
	b.says("waiting", "Remediating", "False", "Waiting", "machine sets are being scaled by test/1: waiting to 9 machines", time.Minute)
	if m := b.machines("waiting"); m[0].GetName() != old[0] || m[0].GetDeletionTimestamp() != nil {
		b.t.Error("it was deleted during a scale")
	}
	began := time.Now()
	b.renewed("waiting", 3, old, 2*time.Minute)
	b.t.Logf("a scale that is not heard of any more (10 s): remediation goes on %.1f s later", time.Since(began).Seconds())
	// An operator that has just started would wait for it once more.
	b.c.must(b.c.Client.CoordinationV1().Leases(machineNamespace).Delete(ctx, lease.Name, meta.DeleteOptions{}))

	version := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": map[string]any{"name": "version"}}}
	in, err := b.c.applier(b.t).resource(version)
	b.c.must(err)
	version, err = in.Create(ctx, version, meta.CreateOptions{})
	b.c.must(err)
	progressing := func(status string) {
		b.t.Helper()
		version.Object["status"] = map[string]any{"desired": map[string]any{"version": "4.16.3"}, "conditions": []any{map[string]any{"type": "Progressing", "status": status}}}
		version, err = in.UpdateStatus(ctx, version, meta.UpdateOptions{})
		b.c.must(err)
	}
	progressing("True")
	old = b.ill("waiting", 1, time.Hour)
	b.says("waiting", "Remediating", "False", "Waiting", "an upgrade of the cluster to 4.16.3 runs", time.Minute)
	if m := b.machines("waiting"); m[0].GetName() != old[0] || m[0].GetDeletionTimestamp() != nil {
		b.t.Error("it was deleted during an upgrade")
	}
	progressing("False")
	b.renewed("waiting", 3, old, 2*time.Minute)
	b.dropCheck("waiting")
	b.dropSet("waiting")
}

// killed: the operator is killed again and again while it remedies ten machines.
func (b *healthBench) killed(p *Program) {
	b.t.Helper()
	b.makeSet("killed", 25, nil)
	old := b.ill("killed", 10, time.Hour)
	f := b.follow()
	b.check("killed", "killed", "40%")
	rounds := 0
	left := func() (n int) {
		for _, m := range b.machines("killed") {
			if slices.Contains(old, m.GetName()) && m.GetDeletionTimestamp() == nil {
				n++
			}
		}
		return n
	}
	for end := time.Now().Add(3 * time.Minute); left() > 0 && time.Now().Before(end); rounds++ {
		time.Sleep(time.Duration(500+rand.IntN(5000)) * time.Millisecond)
		p.Kill()
		b.c.must(p.Start())
	}
	b.renewed("killed", 25, old, 2*time.Minute)
	f.stop()
	slices.Sort(f.deleted)
	if f.most != 1 || !slices.Equal(f.deleted, old) || rounds < 2 {
		b.t.Errorf("%d at once, killed %d times; deleted %v, want %v", f.most, rounds, f.deleted, old)
	}
	b.t.Logf("the operator was killed %d times: %d machines made anew, %d at once", rounds, len(f.deleted), f.most)
}

// explained: kubectl fettle health says the same without an operator.
func (b *healthBench) explained() {
	b.t.Helper()
	b.c.must(b.patch(b.t.Context(), "machinehealthchecks", "killed", map[string]any{"metadata": map[string]any{"annotations": map[string]any{"cluster.x-k8s.io/paused": ""}}}))
	b.says("killed", "Remediating", "False", "Waiting", "the check is paused", time.Minute)
	b.ill("killed", 11, time.Hour)
	b.says("killed", "RemediationAllowed", "False", "TooManyUnhealthy", "", time.Minute)
	out := run(b.t, "kubectl-fettle", "health", "--kubeconfig="+b.c.Kubeconfig)
	for _, want := range []string{"killed: ", "nothing is remediated", "is FettleTestBroken=True for 1h", "MACHINE"} {
		if !strings.Contains(out, want) {
			b.t.Errorf("it does not say %q:\n%s", want, out)
		}
	}
	b.t.Logf("\n%s", out)
	b.dropCheck("killed")
	b.dropSet("killed")
}
