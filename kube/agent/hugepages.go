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

// A kubelet counts a machine's huge pages when it starts (cadvisor's machine info), and
// its node shows these until its next start, however many there are by then. Pods are
// scheduled by what the node shows.

// hugePools is where the kernel has a directory for each size of huge page.
const hugePools = "/sys/kernel/mm/hugepages"

// poolOf names the pool of huge pages, such as "hugepages-2048kB", of which a setting is
// the size; empty for another setting. usual is the pool of the usual size.
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

// poolPage is the size of a pool's pages, in bytes; 0 for what is no pool.
func poolPage(pool string) int64 {
	digits, ok := strings.CutPrefix(pool, "hugepages-")
	kb, err := strconv.ParseInt(strings.TrimSuffix(digits, "kB"), 10, 64)
	if !ok || err != nil || kb <= 0 || kb > 1<<40 {
		return 0
	}
	return kb << 10
}

// poolResource is what a kubelet calls a pool: hugepages-2Mi.
func poolResource(pool string) corev1.ResourceName {
	return corev1.ResourceName(corev1.ResourceHugePagesPrefix + resource.NewQuantity(poolPage(pool), resource.BinarySI).String())
}

// usualPool is the pool whose size vm.nr_hugepages is.
func usualPool(h *host.Host) string { return "hugepages-" + setting.DefaultHugePage(h) }

// sizedPools are the pools that the profile in force has sized, with their bytes.
func sizedPools(h *host.Host, v *tune.Verification) map[string]int64 {
	if v == nil {
		return nil
	}
	usual, sized := usualPool(h), map[string]int64{}
	for _, c := range v.Values {
		pool := poolOf(c.Setting, usual)
		if pool == "" || c.Verdict != plugin.OK { // one of another verdict says something already
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

// uncounted gives the sizes of pools that the node's capacity does not show the verdict
// needs-restart.
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
		c.Why = fmt.Sprintf("the kubelet must be restarted to see them: its node shows %s of %s, the machine has %s", &shown, name, resource.NewQuantity(has, resource.BinarySI))
		v.Counts[c.Verdict]++
		if v.Counts[plugin.OK] == 0 {
			delete(v.Counts, plugin.OK)
		}
	}
}

// kubeletCounts looks whether the node's kubelet shows the huge pages that the profile in
// force has made; the API server is asked only where there are such.
func (a *running) kubeletCounts(ctx context.Context, out *Outcome) {
	h := host.Node(a.Node.Root)
	sized := sizedPools(h, out.Values)
	if len(sized) == 0 {
		return
	}
	capacity, err := a.client.capacity(ctx)
	if err != nil {
		a.Node.tellOnce(fmt.Sprintf("whether the kubelet counts the huge pages is not known: %v", err))
		return
	}
	uncounted(out.Values, sized, capacity, usualPool(h))
}
