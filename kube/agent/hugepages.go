package agent

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/setting"
)

// A kubelet counts huge pages only when it starts (cadvisor's machine info). Its node reports this
// count until the next start, and the scheduler uses it.

// hugePools is the kernel's directory with one entry per huge page size.
const hugePools = "/sys/kernel/mm/hugepages"

// poolOf returns the huge page pool whose size a setting sets, such as "hugepages-2048kB"; "" for
// other settings. usual is the pool of the default page size.
func poolOf(s setting.Setting, usual string) string {
	dir, base := path.Split(s.Name)
	switch {
	case s.Kind == "sysctl" && s.Name == "vm.nr_hugepages":
		return usual
	case s.Kind == "sysfs" && base == "nr_hugepages" && poolPage(path.Base(dir)) > 0:
		return path.Base(dir) // of the machine, or of one NUMA node
	}
	return ""
}

// poolPage returns a pool's page size in bytes; 0 if the name is not a pool.
func poolPage(pool string) int64 {
	digits, ok := strings.CutPrefix(pool, "hugepages-")
	kb, err := strconv.ParseInt(strings.TrimSuffix(digits, "kB"), 10, 64)
	if !ok || err != nil || kb <= 0 || kb > 1<<40 {
		return 0
	}
	return kb << 10
}

// poolResource returns a pool's resource name in Kubernetes, such as hugepages-2Mi.
func poolResource(pool string) corev1.ResourceName {
	return corev1.ResourceName(corev1.ResourceHugePagesPrefix + resource.NewQuantity(poolPage(pool), resource.BinarySI).String())
}

// usualPool returns the pool that vm.nr_hugepages sizes.
func usualPool(h *host.Host) string { return "hugepages-" + setting.DefaultHugePage(h) }

// sizedPools returns the pools sized by the profile in force, with their size in bytes.
func sizedPools(h *host.Host, v *tune.Verification) map[string]int64 {
	if v == nil {
		return nil
	}
	usual, sized := usualPool(h), map[string]int64{}
	for _, c := range v.Values {
		pool := poolOf(c.Setting, usual)
		if pool == "" || c.Verdict != plugin.OK { // other verdicts already report a problem
			continue
		}
		text, err := h.Files.ReadFile(hugePools + "/" + pool + "/nr_hugepages")
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil {
			sized[pool] = n * poolPage(pool)
		}
	}
	return sized
}

// uncounted sets the verdict needs-restart for pools whose size the node's capacity does not show.
func uncounted(v *tune.Verification, sized map[string]int64, capacity corev1.ResourceList, usual string) {
	for i := range v.Values {
		c := &v.Values[i]
		pool := poolOf(c.Setting, usual)
		has, ok := sized[pool]
		if !ok || c.Verdict != plugin.OK {
			continue
		}
		name := poolResource(pool)
		shown := capacity[name]
		if shown.Value() == has {
			continue
		}
		v.Counts[c.Verdict]--
		c.Verdict = plugin.NeedsRestart
		c.Why = fmt.Sprintf("restart the kubelet so that it counts the new huge pages: the Node object has %s of %s, the machine has %s", &shown, name, resource.NewQuantity(has, resource.BinarySI))
		v.Counts[c.Verdict]++
		if v.Counts[plugin.OK] == 0 {
			delete(v.Counts, plugin.OK)
		}
	}
}

// kubeletCounts compares the huge pages of the profile in force with the node's capacity. It
// queries the API server only if the profile sizes a pool.
func (a *running) kubeletCounts(ctx context.Context, out *Outcome) {
	h := host.Node(a.Node.Root)
	sized := sizedPools(h, out.Values)
	if len(sized) == 0 {
		return
	}
	capacity, err := a.client.capacity(ctx)
	if err != nil {
		a.Node.tellOnce(fmt.Sprintf("unknown whether the kubelet counts the huge pages: %v", err))
		return
	}
	uncounted(out.Values, sized, capacity, usualPool(h))
}
