package profile

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// graphClass is one of Differences that loading can show. hit adds it to a generated graph, as
// profiles that are merged after all others.
type graphClass struct {
	id string
	// base and top are profiles: top is the child of base.
	base, top string
	extra     map[string]string // other files; @DIR@ in all texts is the graph's directory
	// repaired is top as TuneD needs it to do what fettle does with top; "" if
	// no text makes it do that.
	repaired string
	names    []string // loaded as well, only by the graph that hits
	before   bool     // base is loaded before the graph, and not in it
	// tuned and ours are the values at place on the two sides; an error that
	// contains the text if they begin with "error: ".
	place, tuned, ours string
}

var graphClasses = []graphClass{
	{
		id:       "forward-reference",
		top:      "[variables]\nzz1=<${zz2}>\nzz2=x\n[zz]\na=${zz1}\n",
		repaired: "[variables]\nzz2=x\nzz1=<${zz2}>\n[zz]\na=${zz1}\n",
		place:    "unit zz/option a", tuned: "<${zz2}>", ours: "<x>",
	},
	{
		id:       "forward-reference",
		base:     "[variables]\nzz1=parent\n[zz]\na=${zz1}\n",
		top:      "[variables]\nzz2=x\nzz1=<${zz2}>\n",
		repaired: "[variables]\nzz1=<x>\nzz2=x\n",
		place:    "unit zz/option a", tuned: "<${zz2}>", ours: "<x>",
	},
	{
		id:       "script-doubled",
		base:     "[script]\nscript=/zz.sh\n",
		top:      "[script]\n",
		repaired: "# nothing\n",
		place:    "unit script/option script", tuned: `"/zz.sh" "/zz.sh"`, ours: `"/zz.sh"`,
	},
	{
		id:    "variable-named-script",
		top:   "[variables]\nscript=x\n[zz]\na=${script}\n",
		place: "unit zz/option a", tuned: "['@DIR@/etc/zz_top/x']", ours: "x",
	},
	{
		id:       "empty-result-first",
		top:      "[zz]\na=${f:strip: }${f:kb2s:4}\n",
		repaired: "[zz]\na=${f:kb2s:4}\n",
		place:    "unit zz/option a", tuned: "${f:kb2s:4}", ours: "8",
	},
	{
		id:    "function-without-name",
		top:   "[zz]\na=b${f}c\n",
		place: "unit zz/option a", tuned: "error: IndexError", ours: "b${f}c",
	},
	{
		id:    "value-goes-on-nowhere",
		top:   "[variables]\ninclude=@DIR@/zz.conf\n",
		extra: map[string]string{"@DIR@/zz.conf": "valueless\n  goes on\n"},
		tuned: "error: AttributeError", ours: "error: @DIR@/zz.conf:2: ",
	},
	{
		id:    "name-refused",
		top:   "[zz]\na=1\n",
		names: []string{"not/a name"},
		place: "unit zz/option a", tuned: "1", ours: `error: profile name "not/a name"`,
	},
	{
		id:    "regexp-dialect",
		top:   "[zz]\na=${f:regex_search_ternary:ab:a(?=b):yes:no}\n",
		place: "unit zz/option a", tuned: "yes", ours: "error: @DIR@/etc/zz_top/tuned.conf:2: ${f:regex_search_ternary",
	},
	{
		id:    "limits",
		top:   "[zz]\na=" + strings.Repeat("${f:strip:x", 70) + strings.Repeat("}", 70) + "\n",
		place: "unit zz/option a", tuned: strings.Repeat("x", 70), ours: "error: @DIR@/etc/zz_top/tuned.conf:2: ",
	},
	{
		id:       "variables-as-unit",
		base:     "[variables]\nzz1=x\n[zz]\na=${zz1}\n",
		top:      "[variables]\ndrop=zz1\n",
		repaired: "[variables]\n",
		place:    "unit zz/option a", tuned: "${zz1}", ours: "x",
	},
	{
		id:       "variables-as-unit",
		top:      "[variables]\nprepend=1\nzz1=x\n[zz]\na=${zz1}${prepend}\n",
		repaired: "[variables]\nzz1=x\n[zz]\na=${zz1}${prepend}\n",
		place:    "unit zz/option a", tuned: "x1", ours: "x${prepend}",
	},
	{
		id:       "variables-as-unit",
		top:      "[zz_more]\ntype=variables\nzz1=x\n[zz]\na=${zz1}\n",
		repaired: "[variables]\nzz1=x\n[zz]\na=${zz1}\n",
		place:    "unit zz/option a", tuned: "${zz1}", ours: "x",
	},
	{
		id:       "priority-as-option",
		base:     "[zz]\npriority=5\na=1\n",
		top:      "[zz]\ndrop=priority\n",
		repaired: "[zz]\n",
		place:    "unit zz/priority", tuned: "0", ours: "5",
	},
	{
		id:       "variables-leak",
		base:     "[variables]\nzz1=left over\n",
		top:      "[zz]\na=${zz1}\n",
		repaired: "[zz]\na=\\${zz1}\n",
		before:   true,
		place:    "unit zz/option a", tuned: "left over", ours: "${zz1}",
	},
	{
		id:       "isolated-cores-packed",
		top:      "[zz]\na=${f:calc_isolated_cores:1}\n",
		repaired: "[zz]\na=${f:cpulist_pack:${f:calc_isolated_cores:1}}\n",
		place:    "unit zz/option a", tuned: "2,3,4,6,7", ours: "2-4,6-7",
	},
}

// notInGraphs are the differences that loading a profile cannot show, each with the name of the
// test that checks it.
var notInGraphs = map[string]string{
	"ascii-digits":                 "TestFunctionsAgainstTuned",
	"cpu-number-limit":             "TestFunctionsAgainstTuned",
	"invert-order":                 "TestFunctionsAgainstTuned",
	"package-glob":                 "no oracle: newer than 2.20; TestFunctions",
	"isolated-cores-argument":      "no oracle: newer than 2.20; TestFunctions",
	"search-path":                  "a default, not a way of loading",
	"answers-once":                 "when values are applied",
	"modifier-not-a-number":        "when values are applied",
	"recommend-without-virt-what":  "recommendation",
	"virt-check-without-virt-what": "TestFunctionsThatExecute",
	"untrusted-directory":          "where programs run",
}

// TestGraphDifferencesAgainstTuned loads generated graphs that contain a difference. TuneD and
// fettle must each do what the table states, and the rest of the profile must be equal: fettle's
// result for the graph is TuneD's result for the repaired graph.
func TestGraphDifferencesAgainstTuned(t *testing.T) {
	o := startOracle(t)
	machine, h := o.machine("machine", inventedCPUs(8, 2, "0-4,6-7", 5))
	count, failures := map[string]int{}, 0
	for i := range graphsOfClass * len(graphClasses) {
		c := graphClasses[i%len(graphClasses)]
		gen := newGenerator(uint64(1_000_000+i), i)
		g := gen.graph()
		remove := writeGraph(t, machine, g)
		for o.load(machine, g).failed != "" { // what it hits must be all that is wrong with it
			remove()
			g = gen.graph()
			remove = writeGraph(t, machine, g)
		}
		remove()
		g, repaired := gen.hit(g, c)
		remove = writeGraph(t, machine, g)
		theirs, ours := o.load(machine, g), loadOurs(h, g)
		problem := ""
		if got := theirs.at(c.place); !answers(got, c.tuned, gen.root) {
			problem = fmt.Sprintf("TuneD: %q, the table says %q", got, c.tuned)
		} else if got := ours.at(c.place); !answers(got, c.ours, gen.root) {
			problem = fmt.Sprintf("ours: %q, the table says %q", got, c.ours)
		} else if c.repaired != "" {
			remove()
			remove = writeGraph(t, machine, repaired)
			fixed := o.load(machine, repaired)
			if fixed.failed != "" {
				problem = "TuneD on the repaired graph: " + fixed.failed
			} else if at := fixed.flat.places(ours.flat); len(at) > 0 {
				problem = "against TuneD on the repaired graph:" + fixed.flat.describe(ours.flat, at)
			}
		}
		remove()
		count[c.id]++
		if problem != "" {
			t.Errorf("%s, graph %d: %s\n%s", c.id, i, problem, g)
			if failures++; failures > 5 {
				break
			}
		}
	}
	t.Logf("graphs by difference: %v", count)
	for _, d := range Differences {
		if _, elsewhere := notInGraphs[d.ID]; !elsewhere && count[d.ID] < 50 {
			t.Errorf("%s: only %d graphs", d.ID, count[d.ID])
		} else if elsewhere && count[d.ID] > 0 {
			t.Errorf("%s: listed as not in graphs", d.ID)
		}
	}
	for id := range count {
		if !slices.ContainsFunc(Differences, func(d Difference) bool { return d.ID == id }) {
			t.Errorf("%s: not in Differences", id)
		}
	}
}

// hit adds class c to a graph, and returns the graph with which TuneD does what fettle does with
// the first one.
func (gen *generator) hit(g graph, c graphClass) (hits, repaired graph) {
	top := c.top
	var names []string
	switch {
	case c.base == "":
	case c.before:
		g.before = []string{"zz_base"}
	case gen.chance(50):
		top += "[main]\ninclude=zz_base\n"
	default:
		names = []string{"zz_base"}
	}
	g.names = append(append(slices.Clone(g.names), names...), "zz_top")
	put := func(to graph, top string, extra map[string]string) graph {
		files := map[string]string{}
		for name, text := range g.files {
			files[name] = text
		}
		files["@DIR@/lib/zz_base/tuned.conf"] = c.base
		files["@DIR@/etc/zz_top/tuned.conf"] = top
		for name, text := range extra {
			files[name] = text
		}
		to.files = map[string]string{}
		for name, text := range files {
			to.files[strings.Replace(name, "@DIR@", gen.root, 1)] = strings.ReplaceAll(text, "@DIR@", gen.root)
		}
		return to
	}
	repaired = put(g, strings.Replace(top, c.top, c.repaired, 1), nil)
	repaired.before = nil
	g = put(g, top, c.extra)
	g.names = append(slices.Clone(g.names), c.names...)
	return g, repaired
}

// at returns the value at a position, or the error.
func (l loaded) at(place string) string {
	if l.failed != "" {
		return "error: " + l.failed
	}
	return l.flat[place]
}

func answers(got, want, root string) bool {
	want = strings.ReplaceAll(want, "@DIR@", root)
	if strings.HasPrefix(want, "error: ") {
		return strings.HasPrefix(got, want)
	}
	return got == want
}
