package agent

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/kube/tuned"
)

func TestPoolOf(t *testing.T) {
	for _, c := range []struct{ setting, pool, resource string }{
		{"sysctl:vm.nr_hugepages", "hugepages-2048kB", "hugepages-2Mi"},
		{"sysfs:/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages", "hugepages-1048576kB", "hugepages-1Gi"},
		{"sysfs:/sys/devices/system/node/node0/hugepages/hugepages-64kB/nr_hugepages", "hugepages-64kB", "hugepages-64Ki"},
		{"sysfs:/sys/kernel/mm/hugepages/hugepages-2048kB/nr_overcommit_hugepages", "", ""},
		{"sysfs:/sys/kernel/mm/hugepages/hugepages-xkB/nr_hugepages", "", ""},
		{"sysctl:vm.swappiness", "", ""},
	} {
		kind, name, _ := strings.Cut(c.setting, ":")
		got := poolOf(setting.Setting{Kind: kind, Name: name}, "hugepages-2048kB")
		if got != c.pool || got != "" && poolResource(got) != corev1.ResourceName(c.resource) {
			t.Errorf("%s is the size of %q, want %q (%s)", c.setting, got, c.pool, c.resource)
		}
	}
}

// TestKubeletCountsHugePages tests a kubelet that started before the pages were reserved and does
// not count them: the value is in force, and the status names the missing step.
func TestKubeletCountsHugePages(t *testing.T) {
	const pool = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
	f := newNode(t, map[string]string{
		"/proc/meminfo": "MemTotal: 8000000 kB\nHugepagesize:       2048 kB\n", "/proc/sys/vm/nr_hugepages": "0\n", pool: "0\n",
	})
	out := f.look(f.profile("", "huge", "[sysctl]\nvm.nr_hugepages=16\nvm.swappiness=10\n"), Apply)
	f.want("/proc/sys/vm/nr_hugepages", "16")
	f.write(pool, "16\n") // the kernel shows one number in two places
	h := host.Node(f.dir)
	sized := sizedPools(h, out.Values)
	if len(sized) != 1 || sized["hugepages-2048kB"] != 32<<20 {
		t.Fatalf("pools of the profile: %v", sized)
	}
	uncounted(out.Values, sized, corev1.ResourceList{"hugepages-2Mi": resource.MustParse("32Mi")}, usualPool(h))
	if c := condition(t, out, "huge", tuned.Degraded); c.Reason != tuned.AsExpected || out.Values.Counts["ok"] != 2 {
		t.Errorf("all are counted: %+v %v", c, out.Values.Counts)
	}
	uncounted(out.Values, sized, nil, usualPool(h))
	v, why := verdict(t, out, "vm.nr_hugepages")
	if want := "restart the kubelet so that it counts the new huge pages: the Node object has 0 of hugepages-2Mi, the machine has 32Mi"; v != "needs-restart" || why != want {
		t.Errorf("%s %q, want %q", v, why, want)
	}
	if v, _ := verdict(t, out, "vm.swappiness"); v != "ok" || out.Values.Counts["ok"] != 1 || out.Values.Counts["needs-restart"] != 1 {
		t.Errorf("vm.swappiness is %s: %v", v, out.Values.Counts)
	}
	a, d := condition(t, out, "huge", tuned.Applied), condition(t, out, "huge", tuned.Degraded)
	if a.Status != "True" || d.Status != "False" || d.Reason != TunedWarning || !strings.Contains(d.Message, "vm.nr_hugepages: want 16, has 16: needs-restart (restart the kubelet") {
		t.Errorf("%+v\n%+v", a, d)
	}

	// A profile without huge pages asks nothing about.
	out = f.look(f.profile("", "day", day), Apply)
	if sized := sizedPools(h, out.Values); len(sized) != 0 {
		t.Errorf("pools of a profile without any: %v", sized)
	}
}
