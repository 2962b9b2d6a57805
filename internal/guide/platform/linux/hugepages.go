package linux

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/setting"
)

// hugepools provides, for each huge page size requested by a file or the kernel command line, the
// requested and the allocated number. The kernel allocates as many as contiguous memory allows,
// without an error (Documentation/admin-guide/mm/hugetlbpage.rst).
var hugepools = platform.Source{
	Prefix: "hugepools",
	Sets:   []string{"hugepools", "hugepools.node"},
	Inputs: inputs("hugepools",
		fact.Input{Name: "*.asked", Type: fact.Number, Doc: "pages that a file or the command line requests"},
		fact.Input{Name: "*.obtained", Type: fact.Number, Doc: "reserved pages"},
		fact.Input{Name: "sizes", Type: fact.List, Doc: "sizes of the reserved pages"},
		fact.Input{Name: "*.bytes", Type: fact.Number, Unit: "bytes", Doc: "size of a page"},
		fact.Input{Name: "node.*.asked", Type: fact.Number, Doc: "requested pages of one size on one NUMA node: node1/hugepages/hugepages-2048kB"},
		fact.Input{Name: "node.*.obtained", Type: fact.Number},
		fact.Input{Name: "pages", Type: fact.Map, Doc: "number of reserved pages per size, such as 2048kB: 8192"},
		fact.Input{Name: "not_a_size", Type: fact.List, Doc: "sizes in hugepagesz= and default_hugepagesz= of the command line that this kernel does not support"},
		fact.Input{Name: "group", Type: fact.Text, Doc: "name in /etc/group of the group vm.hugetlb_shm_group; empty without a name, absent if no group is set"},
	),
	Open: func(_ context.Context, s *platform.Subject) platform.Answers {
		t := &platform.Known{}
		index := s.Facts()
		pools, ok := index.Members("memory.huge_pages")
		if !ok || pools == nil {
			if it, ok := index.Lookup("memory.huge_pages"); ok && it.Unknown != "" {
				t.Rest(it.Unknown)
				return t
			}
			t.Give("hugepools.pages", map[string]string{}, "/sys/kernel/mm/hugepages")
			return t
		}
		sizes, pages := []string{}, map[string]string{}
		standard := s.Answer("memory.huge_page_default_bytes").Value
		for _, pool := range pools {
			fact := "memory.huge_pages." + pool
			size, ok := s.Answer(fact + ".size_bytes").Value.(float64)
			if !ok {
				continue
			}
			if n, ok := s.Answer(fact + ".total").Value.(float64); ok && n > 0 {
				sizes, pages[pool] = append(sizes, pool), strconv.FormatFloat(n, 'f', -1, 64)
			}
			addNodes(t, s, pool)
			winner, asked, ok := askedFor(s, pool, size == standard)
			if !ok {
				continue
			}
			t.Add("hugepools", pool)
			t.Give("hugepools."+pool+".asked", asked, winner.Place())
			t.Give("hugepools."+pool+".bytes", size, fact)
			t.Put(s.Answer(fact+".total"), "hugepools."+pool+".obtained")
		}
		const at = "/sys/kernel/mm/hugepages"
		t.Give("hugepools.sizes", sizes, at)
		t.Give("hugepools.pages", pages, at)
		t.Put(notASize(s, pools, standard), "hugepools.not_a_size")
		t.Put(groupOf(s), "hugepools.group")
		return t
	},
}

// addNodes adds the NUMA nodes with a claim of their own on a pool.
func addNodes(t *platform.Known, s *platform.Subject, pool string) {
	index := s.Facts()
	of := "memory.huge_pages." + pool + ".node"
	names, _ := index.Members(of)
	for _, node := range names {
		item := node + "/hugepages/hugepages-" + pool
		winner, asked, ok := wanted(s, setting.Setting{Kind: "sysfs", Name: "/sys/devices/system/node/" + item + "/nr_hugepages"})
		if !ok {
			continue
		}
		t.Add("hugepools.node", item)
		t.Give("hugepools.node."+item+".asked", asked, winner.Place())
		t.Put(s.Answer(of+"."+node+".total"), "hugepools.node."+item+".obtained")
	}
}

// notASize returns sizes on the command line that the kernel ignores: those without a pool, and an
// unsupported default. The kernel only logs them (mm/hugetlb.c, hugepagesz_setup).
func notASize(s *platform.Subject, pools []string, standard any) fact.Answer {
	parameters := s.Answer("kernel.parameters")
	words, ok := parameters.Value.(map[string]string)
	if !ok {
		return parameters
	}
	out := []string{}
	for _, name := range []string{"default_hugepagesz", "hugepagesz"} {
		word, ok := words[name]
		if !ok {
			continue
		}
		kib, ok := override.PageKiB(word)
		if !ok || !slices.Contains(pools, fmt.Sprintf("%dkB", kib)) || name == "default_hugepagesz" && standard != float64(kib<<10) {
			out = append(out, name+"="+word)
		}
	}
	return fact.Answer{Value: out, At: "/proc/cmdline"}
}

// groupOf returns the name of the group that may use huge pages through shmget. A group missing in
// /etc/group may exist in other sources of nsswitch.conf.
func groupOf(s *platform.Subject) fact.Answer {
	id := s.Read("sysctl:vm.hugetlb_shm_group", fact.Text)
	text, ok := id.Value.(string)
	if !ok || strings.TrimSpace(text) == "0" {
		return fact.Answer{Unknown: id.Unknown, At: id.At}
	}
	groups, why, ok := read(s.Host, "/etc/group")
	if !ok {
		return why
	}
	for line := range strings.Lines(groups) {
		if f := strings.Split(strings.TrimSpace(line), ":"); len(f) >= 3 && f[2] == strings.TrimSpace(text) {
			return fact.Answer{Value: f[0], At: "/etc/group"}
		}
	}
	order, why, ok := read(s.Host, "/etc/nsswitch.conf")
	if !ok && why.Unknown != "" {
		return why
	}
	for line := range strings.Lines(order) {
		sources, ok := strings.CutPrefix(strings.TrimSpace(line), "group:")
		if ok && slices.ContainsFunc(strings.Fields(sources), func(w string) bool { return slices.Contains([]string{"sss", "ldap", "winbind", "nis", "db"}, w) }) {
			return fact.Answer{Unknown: fmt.Sprintf("group %s is not in /etc/group, and /etc/nsswitch.conf has other sources; see getent group %s", strings.TrimSpace(text), strings.TrimSpace(text)), At: "/etc/group"}
		}
	}
	return fact.Answer{Value: "", At: id.At}
}

// askedFor returns the last claim on a pool. The default size's pool has two settings: its own
// file, and vm.nr_hugepages.
func askedFor(s *platform.Subject, pool string, standard bool) (winner override.Claim, pages float64, ok bool) {
	places := []setting.Setting{{Kind: "sysfs", Name: "/sys/kernel/mm/hugepages/hugepages-" + pool + "/nr_hugepages"}}
	if standard {
		places = append(places, setting.Setting{Kind: "sysctl", Name: "vm.nr_hugepages"})
	}
	return wanted(s, places...)
}

// wanted returns the last claim on any of the settings, and its number of pages.
func wanted(s *platform.Subject, places ...setting.Setting) (winner override.Claim, pages float64, ok bool) {
	for _, p := range places {
		c, found := s.Claims().Winner(p)
		if !found {
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(c.Value.Text), 10, 40)
		if err == nil {
			winner, pages, ok = c, float64(n), true
		}
	}
	return winner, pages, ok
}
