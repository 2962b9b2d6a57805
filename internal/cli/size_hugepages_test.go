package cli

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/plugin/table"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/guide/sizing/server"
	testkitmachine "fettle.dev/fettle/internal/testkit/machine"
	testkitsizing "fettle.dev/fettle/internal/testkit/sizing"
)

// hugeMachine is a machine that has booted with what size hugepages wrote, by the
// kernel's own description of /proc and /sys: files by path.
type hugeMachine map[string]string

// pool names the directory of a size of page.
func pool(page string) string {
	return map[string]string{"2M": "hugepages-2048kB", "1G": "hugepages-1048576kB"}[page]
}

// standard is the size of page that the kernel has as its standard.
func (m hugeMachine) standard() string {
	if strings.Contains(m["proc/meminfo"], " 1048576 kB") {
		return "1G"
	}
	return "2M"
}

// reserve gives the machine pages of a size, so many on each node; used of them
// belong to a program.
func (m hugeMachine) reserve(page string, each []int, used int) {
	total := 0
	for i, n := range each {
		total += n
		dir := fmt.Sprintf("sys/devices/system/node/node%d/hugepages/%s/", i, pool(page))
		m[dir+"nr_hugepages"], m[dir+"free_hugepages"] = strconv.Itoa(n)+"\n", "0\n"
	}
	for name, n := range map[string]int{"nr_hugepages": total, "free_hugepages": total - used, "resv_hugepages": 0, "surplus_hugepages": 0, "nr_overcommit_hugepages": 0} {
		m["sys/kernel/mm/hugepages/"+pool(page)+"/"+name] = strconv.Itoa(n) + "\n"
	}
	if page == m.standard() {
		m["proc/sys/vm/nr_hugepages"] = strconv.Itoa(total) + "\n"
	}
}

// booted is the machine of an answer.
func booted(r *sizing.Result, page string, nodes, group int, service string, buffers uint64) hugeMachine {
	m := hugeMachine{
		"proc/meminfo": "MemTotal: 1073741824 kB\nCommitLimit: 1 kB\nCommitted_AS: 1 kB\nHugepagesize:    2048 kB\n",
		"proc/cmdline": "BOOT_IMAGE=/vmlinuz ro quiet\n", "proc/uptime": "90000.00 1.00\n", "proc/vmstat": "pswpin 0\npswpout 0\noom_kill 0\n", "proc/sys/vm/hugetlb_shm_group": strconv.Itoa(group) + "\n",
		"etc/group": "root:x:0:\npostgres:x:26:\napp:x:2001:\n", "etc/nsswitch.conf": "group: files systemd\n", "etc/os-release": "ID=rhel\n",
		"sys/devices/system/cpu/online": "0-63\n", "proc/sys/kernel/osrelease": "6.1.0\n",
	}
	for i := range nodes {
		m[fmt.Sprintf("sys/devices/system/node/node%d/cpulist", i)] = fmt.Sprintf("%d\n", i)
	}
	for _, a := range r.Files {
		m[a.Name] = a.Content
	}
	each := []int{r.Value("pages", "pages").Value.(int)}
	if nodes > 1 {
		each = nil
		for i := range nodes {
			each = append(each, r.Value("pages", fmt.Sprintf("node%d", i)).Value.(int))
		}
	}
	if page == "1G" {
		m["proc/cmdline"] = "ro quiet " + r.Value("kernel", "arguments").Value.(string) + "\n"
		m["proc/meminfo"] = strings.Replace(m["proc/meminfo"], " 2048 kB", " 1048576 kB", 1)
	}
	m.reserve("2M", make([]int, nodes), 0)
	m.reserve("1G", make([]int, nodes), 0)
	m.reserve(page, each, 1)
	if service != "" {
		conf := fmt.Sprintf("shared_buffers = %dkB\n", buffers>>10)
		for _, v := range r.Values {
			if v.Group == "postgresql" {
				conf += fmt.Sprintf("%s = %v\n", v.Name, v.Value)
			}
		}
		m["var/lib/pgsql/data/postgresql.conf"], m["var/lib/pgsql/data/PG_VERSION"] = conf, "16\n"
		m["usr/lib/systemd/system/"+service] = "[Service]\nEnvironment=PGDATA=/var/lib/pgsql/data\nExecStart=/usr/bin/postgres -D ${PGDATA}\n"
	}
	return m
}

// audit is what check says of it.
func (m hugeMachine) audit(t *testing.T, c *rule.Catalogue) (bad, passed map[string]string) {
	t.Helper()
	h := testkitmachine.Mounted(t, m)
	bad, passed = map[string]string{}, map[string]string{}
	for _, f := range c.Check(t.Context(), platform.NewSubject(t.Context(), h, table.Kinds(h), audit.Sources()), []string{"linux", "postgresql"}, nil) {
		switch said := fmt.Sprintf("%s %s: %v, want %v %s", f.Instance, f.State, f.Measured, f.Want, f.Reason); f.State {
		case rule.Failed, rule.Warned:
			bad[f.ID] = said
		case rule.Passed:
			passed[f.ID] = said
		}
	}
	return bad, passed
}

// aboutHugePages are the rules of what size hugepages writes, and the drift of files.
var aboutHugePages = []string{"T05", "T30", "T31", "T32", "T33", "T19", "T20", "G09", "G10"}

// randomHuge is any wish for a program of the machine.
func randomHuge(rnd *rand.Rand) (said []string, page string, nodes, group int, service string) {
	page, nodes = []string{"2M", "1G"}[rnd.IntN(2)], 1+rnd.IntN(2)*rnd.IntN(8)
	said = []string{"size", fmt.Sprintf("%dMiB", 64+rnd.IntN(256<<10)), "page", page, "nodes-numa", strconv.Itoa(nodes)}
	if rnd.IntN(2) == 0 {
		group = []int{26, 2001}[rnd.IntN(2)]
		said = append(said, "group", strconv.Itoa(group))
	}
	if rnd.IntN(2) == 0 {
		service = []string{"postgresql.service", "postgresql-16.service"}[rnd.IntN(2)]
		said = append(said, "for", "postgresql", "service", service)
	}
	return said, page, nodes, group, service
}

// What size hugepages writes is a machine that check has nothing against, and each
// line that it writes, broken in each of its ways, is found.
func TestSizeHugePages(t *testing.T) {
	c, f, rnd := loadCatalogue(t), testkitsizing.Figures(t), rand.New(rand.NewPCG(2, 1024))
	passedOnce, brokenOnce := map[string]bool{}, map[string]bool{}
	for range 20 {
		said, page, nodes, group, service := randomHuge(rnd)
		r, err := testkitsizing.Ask(f, server.NewHugePages(), said...)
		if err != nil {
			t.Fatal(said, err)
		}
		bytes := r.Value("pages", "reserved_bytes").Value.(uint64)
		good := booted(r, page, nodes, group, service, bytes/100*95)
		bad, passed := good.audit(t, c)
		for _, id := range aboutHugePages {
			if bad[id] != "" {
				t.Errorf("%v: %s %s", said, id, bad[id])
			}
			passedOnce[id] = passedOnce[id] || passed[id] != ""
		}
		for name, b := range breakHuge(r, good, page, nodes, service) {
			brokenOnce[name] = true
			if found, _ := b.machine.audit(t, c); found[b.rule] == "" {
				t.Errorf("%v: %s is not found by %s: %v", said, name, b.rule, found)
			}
		}
		// Nothing is written that no breakage knows.
		for _, a := range r.Files {
			for line := range strings.Lines(a.Content) {
				key, _, _ := strings.Cut(strings.Trim(line, " \n"), "=")
				key = strings.TrimSpace(key)
				if !strings.HasPrefix(key, "#") && !strings.HasPrefix(key, "w /sys/devices/system/node/node") && !slices.Contains([]string{"[Service]", "LimitMEMLOCK", "vm.nr_hugepages", "vm.hugetlb_shm_group"}, key) {
					t.Errorf("%v: %s has a line that is not broken here: %s", said, a.Name, line)
				}
			}
		}
	}
	for _, id := range []string{"T05", "T30", "T31", "T32", "T33", "T19", "G09", "G10"} {
		if !passedOnce[id] {
			t.Errorf("%s has not passed on any machine", id)
		}
	}
	if len(brokenOnce) != 13 {
		t.Errorf("%d ways to break it were seen: %v", len(brokenOnce), slices.Sorted(maps.Keys(brokenOnce)))
	}
}

type brokenHuge struct {
	machine hugeMachine
	rule    string
}

// breakHuge breaks each value that was written for the machine.
func breakHuge(r *sizing.Result, good hugeMachine, page string, nodes int, service string) map[string]brokenHuge {
	out := map[string]brokenHuge{}
	with := func(name, rule string, change func(hugeMachine)) {
		m := maps.Clone(good)
		change(m)
		out[name] = brokenHuge{m, rule}
	}
	replace := func(file, from, to string) func(hugeMachine) {
		return func(m hugeMachine) {
			if !strings.Contains(m[file], from) {
				panic(file + " has no " + from)
			}
			m[file] = strings.Replace(m[file], from, to, 1)
		}
	}
	const sysctl, tmpfiles = "etc/sysctl.d/60-hugepages.conf", "etc/tmpfiles.d/hugepages.conf"
	pages := r.Value("pages", "pages").Value.(int)
	if strings.Contains(good[sysctl], "vm.nr_hugepages") {
		line := fmt.Sprintf("vm.nr_hugepages = %d", pages)
		with("more pages than there are", "T05", replace(sysctl, line, line+"00"))
		with("pages that were not obtained", "T19", func(m hugeMachine) { m.reserve(page, []int{pages - 1}, 1) })
	}
	if strings.Contains(good[sysctl], "shm_group") {
		with("a group that is none", "T33", func(m hugeMachine) {
			replace(sysctl, "shm_group = ", "shm_group = 99")(m)
			m["proc/sys/vm/hugetlb_shm_group"] = "99" + good["proc/sys/vm/hugetlb_shm_group"]
		})
		with("a group that was not set", "T19", func(m hugeMachine) { m["proc/sys/vm/hugetlb_shm_group"] = "0\n" })
	}
	if strings.Contains(good[tmpfiles], "\nw ") {
		for i := range nodes {
			with("more pages than a node has", "T30", func(m hugeMachine) {
				n := r.Value("pages", fmt.Sprintf("node%d", i)).Value.(int)
				replace(tmpfiles, fmt.Sprintf("node%d/hugepages/%s/nr_hugepages - - - - %d\n", i, pool(page), n), fmt.Sprintf("node%d/hugepages/%s/nr_hugepages - - - - %d\n", i, pool(page), n+1))(m)
			})
		}
	}
	if page == "1G" {
		with("a standard size that there is not", "T32", replace("proc/cmdline", "default_hugepagesz=1G", "default_hugepagesz=3M"))
		with("a size that there is not", "T32", replace("proc/cmdline", " hugepagesz=1G", " hugepagesz=3M"))
		count, found := "hugepages=9", "T05"
		if nodes > 1 {
			count, found = "hugepages=0:9", "T30"
		}
		with("arguments for more than there is, of "+strings.Trim(count, "9"), found, replace("proc/cmdline", strings.TrimSuffix(count, "9"), count))
	}
	if service != "" {
		const conf = "var/lib/pgsql/data/postgresql.conf"
		with("memory that may not be locked", "G10", replace("etc/systemd/system/"+service+".d/hugepages.conf", "LimitMEMLOCK=", "LimitMEMLOCK=64K\n#"))
		with("fewer pages than the server wants", "G09", func(m hugeMachine) { m.reserve(page, make([]int, nodes), 0) })
		with("a server without huge pages", "T31", func(m hugeMachine) {
			replace(conf, "huge_pages = on", "huge_pages = off")(m)
			m["sys/kernel/mm/hugepages/"+pool(page)+"/free_hugepages"] = strconv.Itoa(pages) + "\n"
		})
		if page == "1G" {
			with("a server with pages of another size", "G09", replace(conf, "huge_page_size = 1GB", "huge_page_size = 2MB"))
		}
	}
	return out
}
