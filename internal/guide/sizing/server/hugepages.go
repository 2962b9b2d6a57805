package server

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// HugePages describes memory in huge pages: the amount, the number of NUMA nodes, and the program.
type HugePages struct {
	Bytes   unit.Size
	Page    string // 2M or 1G
	For     string // postgresql, pod or program
	Nodes   int    // NUMA nodes
	RAM     unit.Size
	Group   int // group ID for shmget; 0 for none
	Service string

	inputs []*sizing.Input
}

// NewHugePages returns a request with the defaults.
func NewHugePages() *HugePages {
	w := &HugePages{Page: "2M", For: "program", Nodes: 1, Service: "postgresql.service"}
	w.inputs = []*sizing.Input{
		sizing.Size(&w.Bytes, "size", "memory in huge pages, such as 16GiB", unit.MiB, 64*unit.TiB).Because("a page is 2 MiB or 1 GiB, and x86-64 addresses 64 TiB"),
		sizing.Word(&w.Page, "page", "size of a page", "2M", "1G"),
		sizing.Word(&w.For, "for", "user of the huge pages", "program", "postgresql", "pod"),
		sizing.Count(&w.Nodes, "nodes-numa", "NUMA nodes over which the pages are spread", 1, 1024).Because("Linux supports no more"),
		sizing.Size(&w.RAM, "ram", "memory of the machine", unit.MiB, 64*unit.TiB).Because("x86-64 addresses 64 TiB"),
		sizing.Count(&w.Group, "group", "ID of the group that may use huge pages with shmget(SHM_HUGETLB); 0 for no group", 0, 1<<31-1).Because("the range of group IDs"),
		sizing.Text(&w.Service, "service", "with --for postgresql: unit whose limit on locked memory is raised", unitName),
	}
	return w
}

func unitName(s string) error {
	base, ok := strings.CutSuffix(s, ".service")
	if !ok || base == "" || strings.Trim(base, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.@:") != "" {
		return fmt.Errorf("%q is not the name of a service such as postgresql.service", s)
	}
	return nil
}

// Inputs implements sizing.Request.
func (w *HugePages) Inputs() []*sizing.Input { return w.inputs }

// Plan is the number of pages and their distribution.
type Plan struct {
	Page     unit.Size
	Pages    int
	Each     []int // pages per NUMA node
	Resource string
	Sysfs    string // name of the directory in .../hugepages
	Sources  []rule.Source
}

// Bytes returns the memory of the pages.
func (p *Plan) Bytes() unit.Size { return unit.Size(p.Pages) * p.Page }

// CountHugePages returns the number of pages that an amount needs, spread over NUMA nodes; the
// first nodes get the remainder.
func CountHugePages(r *sizing.Result, bytes unit.Size, page string, nodes int) (*Plan, error) {
	e := r.Newest("huge-pages")
	size := e.Number(page, "size")
	p := &Plan{Page: unit.Size(size), Resource: e.Text(page, "resource"), Sysfs: e.Text(page, "sysfs"), Sources: e.Sources}
	if size < 1 || nodes < 1 {
		return nil, cmp.Or(r.Err(), fmt.Errorf("invalid huge pages: %s bytes each on %s", unit.Digits(size), internaltext.Count(nodes, "node")))
	}
	p.Pages = int((bytes + p.Page - 1) / p.Page)
	for i := range nodes {
		n := p.Pages / nodes
		if i < p.Pages%nodes {
			n++
		}
		p.Each = append(p.Each, n)
	}
	return p, nil
}

// Arguments returns the kernel arguments that reserve the pages before memory fragments.
func (p *Plan) Arguments(page string) []string {
	count := strconv.Itoa(p.Pages)
	if len(p.Each) > 1 {
		var each []string
		for i, n := range p.Each {
			each = append(each, fmt.Sprintf("%d:%d", i, n))
		}
		count = strings.Join(each, ",")
	}
	return []string{"default_hugepagesz=" + page, "hugepagesz=" + page, "hugepages=" + count}
}

// Size implements sizing.Request.
func (w *HugePages) Size(_ context.Context, f sizing.Figures) (*sizing.Result, error) {
	if w.Bytes == 0 {
		return nil, sizing.Instead("size", "16GiB", "not given; for example 16GiB")
	}
	r := sizing.NewResult(f, "hugepages", "")
	p, err := CountHugePages(r, w.Bytes, w.Page, w.Nodes)
	if err != nil {
		return nil, err
	}
	if w.RAM != 0 && p.Bytes() >= w.RAM {
		return nil, sizing.Instead("ram", p.Bytes()+unit.GiB, "%s of huge pages leave nothing of %s for the rest of the machine", p.Bytes(), w.RAM)
	}
	// The kernel, its caches and programs' other memory use small pages.
	if least := min(unit.GiB, w.RAM/4); w.RAM != 0 && w.RAM-p.Bytes() < least {
		return nil, sizing.Instead("ram", p.Bytes()+unit.GiB, "%s of huge pages leave %s of %s for the kernel and the programs' own memory, and they need %s at least", p.Bytes(), w.RAM-p.Bytes(), w.RAM, least)
	}
	r.RecordInputs(w.inputs)
	why := fmt.Sprintf("%s in pages of %s", sizing.Amount(uint64(w.Bytes), "bytes"), sizing.Amount(uint64(p.Page), "bytes"))
	if p.Bytes() != w.Bytes {
		why += ", rounded up"
	}
	r.Add(sizing.Value{Group: "pages", Name: "pages", Value: p.Pages, Why: why, Sources: p.Sources})
	r.Add(sizing.Value{Group: "pages", Name: "reserved_bytes", Value: uint64(p.Bytes()), Unit: "bytes", Why: "not available for anything else: huge pages are neither swapped nor overcommitted", Sources: p.Sources})
	if len(p.Each) > 1 {
		for i, n := range p.Each {
			r.Add(sizing.Value{Group: "pages", Name: fmt.Sprintf("node%d", i), Value: n, Unit: "pages", Why: fmt.Sprintf("/sys/devices/system/node/node%d/hugepages/%s/nr_hugepages", i, p.Sysfs)})
		}
	}
	r.Add(sizing.Value{Group: "kernel", Name: "arguments", Value: strings.Join(p.Arguments(w.Page), " "), Why: "at boot all pages can be reserved; later memory may be fragmented, and fewer are obtained", Sources: []rule.Source{rule.Cite("openshift-scalability", "13.2"), rule.Cite("linux", "Documentation/admin-guide/mm/hugetlbpage.rst")}})
	if w.RAM != 0 {
		r.Spend("memory", "MiB", float64(w.RAM/unit.MiB), sizing.Part{Name: "huge pages", Amount: float64(p.Bytes() / unit.MiB)})
	}
	if len(p.Each) > 1 && w.Page == "1G" {
		r.Note("hugepages=NODE:COUNT needs kernel 5.16; with an older kernel use hugepages=%d, and the kernel spreads the pages over the nodes", p.Pages)
	}
	if w.For == "pod" {
		w.pod(r, p)
	} else {
		w.machine(r, p)
	}
	h := &r.Headline
	h.Line("%s huge pages of %s, %s in all%s", h.Count("pages_pages", p.Pages, ""), sizing.Amount(uint64(p.Page), "bytes"), r.InHeadline("pages", "reserved_bytes"), perNode(p))
	r.TightestInHeadline()
	r.First("pages/pages", "pages/reserved_bytes", "kernel/vm.hugetlb_shm_group", "limits/memlock", "postgresql/*", "pod/*")
	h.Line("No other program can use this memory: huge pages are neither swapped nor overcommitted")
	return r, r.Err()
}

// perNode describes the spread over NUMA nodes.
func perNode(p *Plan) string {
	if len(p.Each) < 2 {
		return ""
	}
	each := fmt.Sprint(p.Each[len(p.Each)-1])
	if most := fmt.Sprint(p.Each[0]); most != each {
		each += " or " + most
	}
	return internaltext.Sprintf(", %s on each of %s", each, internaltext.Count(len(p.Each), "NUMA node"))
}

// machine plans pages for a program on the machine itself.
func (w *HugePages) machine(r *sizing.Result, p *Plan) {
	sysctl := "# Huge pages, " + p.Bytes().String() + ". Written by fettle size hugepages.\n"
	switch {
	case w.Page == "1G":
		r.Steps = append(r.Steps, sizing.Step{
			Do: "Add the kernel arguments", Command: "grubby --update-kernel=ALL --args=\"" + strings.Join(p.Arguments(w.Page), " ") + "\"",
			Restarts: "the machine", Check: "cat /sys/kernel/mm/hugepages/" + p.Sysfs + "/nr_hugepages shows " + strconv.Itoa(p.Pages),
		})
		sysctl = ""
	case len(p.Each) > 1:
		var lines strings.Builder
		lines.WriteString(sysctl)
		for i, n := range p.Each {
			fmt.Fprintf(&lines, "w /sys/devices/system/node/node%d/hugepages/%s/nr_hugepages - - - - %d\n", i, p.Sysfs, n)
		}
		r.Files = append(r.Files, sizing.Artefact{Name: "etc/tmpfiles.d/hugepages.conf", What: "the pages of each NUMA node, from boot on", Checked: "tmpfiles.d(5)", Content: lines.String()})
		r.Steps = append(r.Steps, sizing.Step{Do: "Reserve the pages of each node", Command: "systemd-tmpfiles --create /etc/tmpfiles.d/hugepages.conf", Check: fmt.Sprintf("HugePages_Total of /proc/meminfo is %d; if it is less, memory is fragmented: boot with the kernel arguments", p.Pages)})
		sysctl = ""
	default:
		sysctl += fmt.Sprintf("vm.nr_hugepages = %d\n", p.Pages)
	}
	if w.Group != 0 {
		if sysctl == "" {
			sysctl = "# Written by fettle size hugepages.\n"
		}
		sysctl += fmt.Sprintf("vm.hugetlb_shm_group = %d\n", w.Group)
		w.addGroup(r)
	}
	if sysctl != "" {
		r.Files = append(r.Files, sizing.Artefact{Name: "etc/sysctl.d/60-hugepages.conf", What: "the pages and their group", Checked: "sysctl.d(5)", Content: sysctl})
		step := sizing.Step{Do: "Set the sysctls", Command: "sysctl --load=/etc/sysctl.d/60-hugepages.conf"}
		if strings.Contains(sysctl, "nr_hugepages") {
			step.Check = fmt.Sprintf("HugePages_Total of /proc/meminfo is %d; if it is less, memory is fragmented: boot with the kernel arguments", p.Pages)
		}
		r.Steps = append(r.Steps, step)
	}
	memlock := uint64(p.Bytes())
	r.Add(sizing.Value{Group: "limits", Name: "memlock", Value: memlock, Unit: "bytes", Why: "a program that locks its memory may lock all of the pages", Sources: []rule.Source{rule.Cite("postgresql-docs", "Linux Huge Pages")}})
	if w.For != "postgresql" {
		r.Note("a unit gets the limit by LimitMEMLOCK=%d, a login by memlock in /etc/security/limits.d (%d KiB)", memlock, memlock/1024)
		return
	}
	dropIn := "etc/systemd/system/" + w.Service + ".d/hugepages.conf"
	r.Files = append(r.Files, sizing.Artefact{Name: dropIn, What: "the memory that PostgreSQL may lock", Checked: "systemd.exec(5)", Content: fmt.Sprintf("# Written by fettle size hugepages.\n[Service]\nLimitMEMLOCK=%d\n", memlock)})
	r.Add(sizing.Value{Group: "postgresql", Name: "huge_pages", Value: "on", Why: "PostgreSQL then starts only with huge pages; the default, try, silently does without them", Sources: []rule.Source{rule.Cite("postgresql-docs", "huge_pages")}})
	if w.Page == "1G" {
		r.Add(sizing.Value{Group: "postgresql", Name: "huge_page_size", Value: "1GB", Why: "not the kernel's default size; PostgreSQL 14 and later", Sources: []rule.Source{rule.Cite("postgresql-docs", "huge_page_size")}})
	}
	r.Note("PostgreSQL's shared memory is more than shared_buffers: `postgres -D DATA -C shared_memory_size_in_huge_pages` (15 and later) prints how many pages it needs")
	r.Steps = append(r.Steps,
		sizing.Step{Do: "Set huge_pages = on, and let the unit lock memory", Command: "systemctl daemon-reload && systemctl restart " + w.Service, Restarts: w.Service, Check: "HugePages_Free of /proc/meminfo has fallen, and pg_isready answers"})
}

// addGroup adds the group that may use the pages with shmget.
func (w *HugePages) addGroup(r *sizing.Result) {
	r.Add(sizing.Value{Group: "kernel", Name: "vm.hugetlb_shm_group", Value: w.Group, Why: "whose members may call shmget with SHM_HUGETLB; mmap needs no group", Sources: []rule.Source{rule.Cite("openshift-scalability", "13.2")}})
}

// pod plans pages for an OpenShift pod.
func (w *HugePages) pod(r *sizing.Result, p *Plan) {
	if w.Nodes > 1 && w.Page == "2M" {
		r.Note("vm.nr_hugepages spreads the pages evenly over the NUMA nodes; a Tuned object has no count for each")
	}
	if w.Group != 0 {
		w.addGroup(r)
	}
	tuned, files := p.Cluster(w.Page, w.Group)
	r.Files = append(r.Files, files...)
	amount := fmt.Sprintf("%dMi", p.Bytes()/unit.MiB)
	if p.Bytes()%unit.GiB == 0 {
		amount = fmt.Sprintf("%dGi", p.Bytes()/unit.GiB)
	}
	text := sizing.Manifest("pod.yaml", "A pod with huge pages: add the resources and the volume to your own.\nRequests equal limits, because huge pages are not overcommitted.",
		map[string]any{"Resource": p.Resource, "Amount": amount, "Group": w.Group})
	r.Files = append(r.Files, sizing.Artefact{Name: "hugepages-pod.yaml", What: "the resources and the volume of a pod", Checked: "the types of k8s.io/api", Content: text})
	r.Add(sizing.Value{Group: "pod", Name: p.Resource, Value: amount, Why: "the amount of memory, not the number of pages; it also limits the volume", Sources: p.Sources})
	r.Steps = append(r.Steps, tuned...)
	r.Steps = append(r.Steps, sizing.Step{Do: "Create the pod", Command: "oc create -f hugepages-pod.yaml", Check: "the pod runs; Insufficient " + p.Resource + " means that no node has them"})
	r.Note("a node has huge pages of one size only; a pod that requests %s stays pending on nodes without them", p.Resource)
}

// Cluster returns the objects that reserve the pages on OpenShift nodes and set the group (0 for
// none), and the steps.
func (p *Plan) Cluster(page string, group int) (steps []sizing.Step, files []sizing.Artefact) {
	check := fmt.Sprintf("oc describe node shows %s: %dMi as allocatable", p.Resource, p.Bytes()/unit.MiB)
	pages, what := p.Pages, "the pages of each node with the label hugepages, and no transparent ones"
	if page != "2M" {
		arguments := append(p.Arguments(page), "transparent_hugepage=never")
		text := sizing.Manifest("machine-config.yaml", "Huge pages of 1 GiB need boot arguments.", map[string]any{"Name": "50-worker-hugepages", "Arguments": arguments})
		steps = append(steps, sizing.Step{Do: "Boot the workers with the pages", Command: "oc create -f 50-worker-hugepages.yaml", Restarts: "each worker, one at a time", Check: check})
		files = append(files, sizing.Artefact{Name: "50-worker-hugepages.yaml", What: "kernel arguments of every worker", Checked: "the types of openshift/api", Content: text})
		if group == 0 {
			return steps, files
		}
		pages, what, check = 0, "the group of each node with the label hugepages", fmt.Sprintf("sysctl vm.hugetlb_shm_group is %d on such a node", group)
	}
	text := sizing.Manifest("tuned.yaml", "Huge pages for the nodes with the label hugepages.", map[string]any{"Pages": pages, "Group": group})
	steps = append(steps,
		sizing.Step{Do: "Label the nodes", Command: "oc label node NODE hugepages=true"},
		sizing.Step{Do: "Tune the nodes with the label", Command: "oc create -f hugepages_tuning.yaml", Check: check})
	return steps, append(files, sizing.Artefact{Name: "hugepages_tuning.yaml", What: what, Checked: "the schema of tuned.openshift.io/v1", Content: text})
}
