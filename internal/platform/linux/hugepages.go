package linux

import (
	"context"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/claim"
	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/setting"
)

// hugepools has each size of huge page that a file or the kernel's command line
// asks for: what was asked for, and what the machine could get. The kernel gives
// what it finds in one piece, without an error
// (Documentation/admin-guide/mm/hugetlbpage.rst).
var hugepools = platform.Source{
	Prefix: "hugepools",
	Sets:   []string{"hugepools"},
	Inputs: inputs("hugepools",
		rule.Input{Name: "*.asked", Type: rule.Number, Doc: "pages that a file or the command line asks for"},
		rule.Input{Name: "*.obtained", Type: rule.Number, Doc: "pages that the pool has"},
		rule.Input{Name: "sizes", Type: rule.List, Doc: "the sizes that the machine has pages of"},
		rule.Input{Name: "*.bytes", Type: rule.Number, Unit: "bytes", Doc: "size of a page"},
	),
	Open: func(_ context.Context, s *platform.Subject) platform.Answers {
		t := newTold()
		index := s.Facts()
		pools, ok := index.Members("memory.huge_pages")
		if !ok || pools == nil {
			if it, ok := index.Lookup("memory.huge_pages"); ok && it.Unknown != "" {
				t.unknown = it.Unknown
			}
			return t
		}
		sizes := []string{}
		standard := s.Answer("memory.huge_page_default_bytes").Value
		for _, pool := range pools {
			fact := "memory.huge_pages." + pool
			size, ok := s.Answer(fact + ".size_bytes").Value.(float64)
			if !ok {
				continue
			}
			if n, ok := s.Answer(fact + ".total").Value.(float64); ok && n > 0 {
				sizes = append(sizes, pool)
			}
			winner, asked, ok := askedFor(s, pool, size == standard)
			if !ok {
				continue
			}
			t.add("hugepools", pool)
			t.give("hugepools."+pool+".asked", asked, winner.Place())
			t.give("hugepools."+pool+".bytes", size, fact)
			t.answers["hugepools."+pool+".obtained"] = s.Answer(fact + ".total")
		}
		t.give("hugepools.sizes", sizes, "/sys/kernel/mm/hugepages")
		return t
	},
}

// askedFor is the last claim on a pool. That of the machine's standard size has
// two places: its own file, and vm.nr_hugepages.
func askedFor(s *platform.Subject, pool string, standard bool) (winner claim.Claim, pages float64, ok bool) {
	places := []setting.Setting{{Kind: "sysfs", Name: "/sys/kernel/mm/hugepages/hugepages-" + pool + "/nr_hugepages"}}
	if standard {
		places = append(places, setting.Setting{Kind: "sysctl", Name: "vm.nr_hugepages"})
	}
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
