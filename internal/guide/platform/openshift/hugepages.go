package openshift

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/unit"
)

// hugepages collects the huge pages in documents: those reserved on nodes, and those requested by pods.
type hugepages struct {
	reserved map[uint64]float64 // bytes per node, by page size in bytes
	at       string             // position of the last document that reserves pages
	unclear  string             // reason why the reserved pages are unknown
	odd      []string           // kernel arguments that the kernel will ignore
	oddAt    string
	thp      string // setting of transparent huge pages on these nodes
	thpAt    string
	pods     []hugePod
}

// hugePod is a pod's request for pages of one size.
type hugePod struct {
	item string
	page uint64 // bytes
	at   string
}

const hugeResource = "hugepages-"

// reserve records pages reserved on a node. The largest number among documents counts, because it
// is unknown which documents are for the same node.
func (h *hugepages) reserve(page uint64, count, at string) {
	pages := 0.0
	for part := range strings.SplitSeq(count, ",") {
		if _, n, ok := strings.Cut(part, ":"); ok { // NODE:COUNT
			part = n
		}
		n, err := strconv.ParseUint(strings.TrimSpace(part), 10, 32)
		if err != nil {
			h.unclear = fmt.Sprintf("%s: %q is not a number of huge pages", at, count)
			return
		}
		pages += float64(n)
	}
	if h.reserved == nil {
		h.reserved = map[uint64]float64{}
	}
	h.reserved[page], h.at = max(h.reserved[page], pages*float64(page)), at
}

// transparent records a document's setting of transparent huge pages. The first value other than
// never counts.
func (h *hugepages) transparent(value, at string) {
	if h.thp == "" || h.thp == "never" {
		h.thp, h.thpAt = value, at
	}
}

// standard is the default size of a huge page (x86-64).
const standard = 2 << 20

// arguments reads kernel arguments in order: hugepages= refers to the preceding hugepagesz=.
func (h *hugepages) arguments(words []string, at string) {
	size := uint64(standard)
	for _, w := range words {
		name, value, _ := strings.Cut(w, "=")
		switch name {
		case "default_hugepagesz", "hugepagesz":
			kib, ok := override.PageKiB(value)
			if !ok || !slices.Contains(pageSizes, kib<<10) {
				h.odd, h.oddAt = append(h.odd, w), at
			}
			size = kib << 10
		case "hugepages":
			h.reserve(size, value, at)
		case "transparent_hugepage":
			h.transparent(value, at)
		case "transparent_hugepages":
			h.odd, h.oddAt = append(h.odd, w), at
		}
	}
}

// pageSizes are the sizes of huge pages in bytes: on x86-64, and on aarch64 with pages of 4 and
// 64 KiB (Documentation/arch/arm64/hugetlbpage.rst).
var pageSizes = []uint64{64 << 10, 2 << 20, 32 << 20, 512 << 20, 1 << 30, 16 << 30}

// profileOf records the pages that a TuneD profile reserves.
func (t *collector) profileOf(data, at string) {
	section := ""
	for line := range strings.Lines(data) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok && strings.HasSuffix(name, "]") {
			section = strings.TrimSuffix(name, "]")
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		key, value = strings.TrimSpace(key), strings.TrimSpace(value)
		switch {
		case !ok || strings.HasPrefix(line, "#") || strings.HasPrefix(line, ";"):
		case section == "sysctl" && key == "vm.nr_hugepages":
			t.huge.reserve(standard, value, at)
		case section == "sysctl" && key == "vm.hugetlb_shm_group":
			t.give("shm_group", value, at)
		case section == "vm" && (key == "transparent_hugepages" || key == "transparent_hugepage"):
			t.huge.transparent(value, at)
		case section == "bootloader" && strings.HasPrefix(key, "cmdline"):
			t.huge.arguments(strings.Fields(strings.Trim(value, `+-"' `)), at)
		}
	}
}

// machineConfig reads the kernel arguments of a MachineConfig.
func (t *collector) machineConfig(d document) {
	var words []string
	where := d.get("spec", "kernelArguments")
	for _, n := range list(where) {
		words = append(words, n.Value)
	}
	if len(words) > 0 {
		t.huge.arguments(words, d.at(where))
	}
}

// asksForHugePages reports whether a pod requests a resource hugepages-SIZE.
func (d document) asksForHugePages() bool {
	return len(d.hugeResources()) > 0
}

// hugeResources returns the names of the resources hugepages-SIZE that a pod requests.
func (d document) hugeResources() (out []string) {
	for _, c := range list(d.get("spec", "containers")) {
		for _, part := range []string{"requests", "limits"} {
			for _, k := range keys(get(c, "resources", part)) {
				if strings.HasPrefix(k, hugeResource) && !slices.Contains(out, k) {
					out = append(out, k)
				}
			}
		}
	}
	return out
}

// pod reads a pod with huge pages.
func (t *collector) pod(d document) {
	containers := list(d.get("spec", "containers"))
	alone := true
	for _, c := range containers {
		for _, part := range []string{"requests", "limits"} {
			if get(c, "resources", part, "cpu") != nil || get(c, "resources", part, "memory") != nil {
				alone = false
			}
		}
	}
	unknown, volumes := []string{}, d.get("spec", "volumes")
	var names []string
	for _, v := range list(volumes) {
		names = append(names, openshiftText(v, "name"))
		medium := openshiftText(v, "emptyDir", "medium")
		if size, ok := strings.CutPrefix(medium, "HugePages-"); ok {
			if _, err := unit.ParseQuantity(size); err == nil {
				continue
			}
		}
		if !slices.Contains([]string{"", "Memory", "HugePages"}, medium) {
			unknown = append(unknown, medium)
		}
	}
	missing := []string{}
	for _, c := range containers {
		for _, m := range list(get(c, "volumeMounts")) {
			if name := openshiftText(m, "name"); !slices.Contains(names, name) {
				missing = append(missing, name)
			}
		}
	}
	groups, where := []string{}, d.get("spec", "securityContext", "supplementalGroups")
	for _, g := range list(where) {
		groups = append(groups, g.Value)
	}
	for _, resource := range d.hugeResources() {
		item := t.item(hugePods, d)
		request, limit := 0.0, 0.0
		var at *yaml.Node
		var bad error
		for _, c := range containers {
			r, l := get(c, "resources", "requests", resource), get(c, "resources", "limits", resource)
			if r == nil {
				r = l // a limit alone implies the request
			}
			for _, part := range []struct {
				n   *yaml.Node
				sum *float64
			}{{r, &request}, {l, &limit}} {
				if part.n == nil {
					continue
				}
				v, err := unit.ParseQuantity(part.n.Value)
				if err != nil {
					bad = err
				}
				*part.sum, at = *part.sum+v, part.n
			}
		}
		page, err := unit.ParseQuantity(strings.TrimPrefix(resource, hugeResource))
		if err != nil || page < 1 || page > 1<<40 {
			bad = fmt.Errorf("%s is not a size of huge pages", resource)
		}
		t.give(item+".resource", resource, d.at(at))
		t.give(item+".alone", alone, d.at(at))
		t.give(item+".media", unknown, d.at(volumes))
		t.give(item+".unmounted", missing, d.at(volumes))
		t.give(item+".groups", groups, d.at(where))
		if bad != nil {
			for _, input := range []string{".request_bytes", ".limit_bytes", ".page_bytes"} {
				t.unclear(item+input, d.at(at), bad)
			}
			continue
		}
		t.give(item+".request_bytes", request, d.at(at))
		t.give(item+".limit_bytes", limit, d.at(at))
		t.give(item+".page_bytes", page, d.at(at))
		t.huge.pods = append(t.huge.pods, hugePod{item, uint64(page), d.at(at)})
	}
}

// finishHugePages answers with the pages that nodes have for pods. The input is absent if no
// document reserves pages.
func (t *collector) finishHugePages() {
	h := &t.huge
	if len(h.odd) > 0 || h.reserved != nil {
		t.give("odd_arguments", append([]string{}, h.odd...), h.oddAt)
	}
	if h.reserved == nil && h.unclear == "" {
		return
	}
	if h.reserved != nil {
		t.give("thp_beside", h.thp, h.thpAt)
	}
	for _, p := range h.pods {
		if h.unclear != "" {
			t.unclear(p.item+".node_bytes", p.at, fmt.Errorf("%s", h.unclear))
			continue
		}
		t.give(p.item+".node_bytes", h.reserved[p.page], h.at)
	}
}
