package proofs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// runs is the table of agents' runs.
func (r *puppetRecord) runs(w *words) {
	w.say("## What an agent asks for")
	w.say("A catalog of %d files with a source of their own, and one directory of %d files. Static catalogs are the git-backed pair of commands that `fettle size puppet` writes; the last run fetched the changed file in its version.", r.Files, r.Directory)
	rows := [][]string{{"run", "front end", "cache", "static catalogs", "requests at Puppet Server", "of them `file_metadata`", "at the front end", "catalog applied in", "whole run"}}
	for _, a := range r.Agents {
		front := "-"
		if a.AtFront != nil {
			front = fmt.Sprint(sum(a.AtFront))
		}
		rows = append(rows, []string{a.What, title(a.Front), yes(a.Cached), yes(a.Static), fmt.Sprint(sum(a.Behind)), fmt.Sprint(a.Behind["GET file_metadata"]), front, ms(a.Applied), ms(a.Whole)})
	}
	w.table(rows...)
	for _, l := range r.Loads {
		if l.Of == "replay" && l.Result.Replay != nil {
			t := l.Result.Replay
			w.say("The log of the first four runs, replayed through %s with its cache (`fettle load http --replay`, %g times as fast): %d requests, %s; %.3g/s answered, p50 %s, p99 %s, %d errors.", title(l.Front), t.Speed, t.Requests, t.Left(), l.Result.Whole.AnswerRate, ms(l.Result.Whole.Latency.P50S), ms(l.Result.Whole.Latency.P99S), l.Result.Whole.Errors)
		}
	}
}

// requests is how many there are of all kinds.
func requests(of map[string]uint64) string {
	if n := sum(of); n != 1 {
		return fmt.Sprintf("%d requests", n)
	}
	return "1 request"
}

func sum(of map[string]uint64) (n uint64) {
	for _, one := range of {
		n += one
	}
	return n
}

// holes is the table of what was asked of each site.
func (r *puppetRecord) holes(w *words) {
	w.say("## Holes")
	w.say("Each configuration was asked the same, in this order, with curl. A status in bold is a hole: what should have been refused was given, or what was given is of another time or environment. `fettle check puppet --probe` asked each as well; the last column is what it found.")
	for i, q := range puppetQuestions {
		w.item("%d. %s", i+1, q)
	}
	head := []string{"configuration", "keeps"}
	for i := range puppetQuestions {
		head = append(head, fmt.Sprint(i+1))
	}
	rows := [][]string{append(head, "`fettle check`")}
	for _, s := range r.Probes {
		row := []string{s.Name, yes(s.Kept)}
		for _, q := range puppetQuestions {
			a := s.answer(q)
			switch {
			case a == nil:
				row = append(row, "")
			default:
				text := a.Status
				if a.Status == "000" {
					text = "nobody there"
				}
				if a.Says != "" {
					text += " " + a.Says
				}
				if a.Open {
					text = "**" + text + "**"
				}
				row = append(row, text)
			}
		}
		rows = append(rows, append(row, found(s)))
	}
	w.table(rows...)
	w.say("What is particular to each (the others with a hole are right in all else):")
	for _, s := range r.Probes {
		if s.Configuration != "" {
			w.item("- %s: `%s`", s.Name, strings.ReplaceAll(strings.TrimSpace(s.Configuration), "\n", "; "))
		}
	}
	w.say("mod_mem_cache is gone since Apache 2.4, so that the source's lines are skipped; with mod_cache_disk in its place nothing is kept, because the environment is in the query since Puppet 4 and the answers do not say for how long they are good. Question 4 has to be read with question 5: a cache says what was true for five minutes at most, and each deployment has to empty it. With static catalogs nothing of the kind can be: the table above has a run just after a file was changed. Question 6 is by GET, as agents of Puppet 2 asked; those of today POST, and no cache keeps that.")
}

// found are the rules that a site does not pass.
func found(s puppetSite) string {
	var out []string
	for _, id := range slices.Sorted(maps.Keys(s.Findings)) {
		if f := s.Findings[id]; f.State != "pass" && f.State != "not-applicable" {
			out = append(out, id+" "+f.State)
		}
	}
	if out == nil {
		return "no finding"
	}
	return strings.Join(out, ", ")
}

// limits is what the record does not say.
func (r *puppetRecord) limits(w *words) {
	w.say("## What it does not say")
	w.item("- The generator, the front end and Puppet Server shared %d processors: what a cache saves here the others get. The source's generator had a machine of its own, and its servers are not named; only ratios can be held beside each other.", r.Machine.CPUs)
	var means []string
	for _, l := range r.Loads {
		if l.Of == "mix" && !l.Cached {
			means = append(means, fmt.Sprintf("%s through %s in round %d", ms(l.Result.Whole.Latency.MeanS), title(l.Front), l.Round))
		}
	}
	w.item("- Java gets faster for minutes, and what is measured last would win. There were %.0f s of load before anything was measured, and the second round has the turns of the first backwards; without a cache the mean was %s.", r.WarmUpS, strings.Join(means, ", "))
	var left []string
	for _, what := range slices.Sorted(maps.Keys(r.LeftOut)) {
		left = append(left, fmt.Sprintf("%d × %s", r.LeftOut[what], what))
	}
	w.item("- The mix is of one node, and has no %s: a load cannot make these again. Its catalogs are asked for by GET without facts, for which the server takes those that it has. All its requests take the same forms of answers. The source's log was of a fleet.", strings.Join(left, ", "))
	w.item("- The caches were in memory (the test root is a tmpfs), and held all that was asked for. Each turn began with an empty one.")
	w.item("- nginx logs whole milliseconds, and what it answers from its cache takes less than one; its means after are therefore coarse. The intervals are of `fettle logs compare`, of 95 %%, each by itself.")
	w.item("- There is no systemd in the test root: the services were started by their own commands, and the units that `fettle size puppet` writes for the list of revoked certificates were not run.")
}

// commands are what was called: of each sort of load one, as its record has it.
func (r *puppetRecord) commands(w *words) {
	w.say("## The commands")
	list := []string{"fettle logs --config /etc/puppet/puppetserver --by method,indirector --by environment"}
	for _, f := range puppetFronts {
		list = append(list, fmt.Sprintf("fettle size puppet --front-end %s --parts static,cache --write %s", f.Name, f.plan()))
	}
	seen := map[string]bool{}
	for _, l := range r.Loads {
		if !seen[l.Of] {
			list, seen[l.Of] = append(list, l.Command), true
		}
	}
	for _, f := range puppetFronts {
		list = append(list, fmt.Sprintf("fettle logs compare --config %s --by method,indirector %s %s", f.conf, f.side(false), f.side(true)))
	}
	list = append(list, "fettle check puppet --probe --url https://localhost:8140 --puppet-ssldir /srv/agent1.test/ssl --certname agent1.test --backend http://"+beyondLoopback+":8139 --allow "+beyondLoopback+"/32 --file modules/site/probe --environment production --environment test --user-agent "+userAgent)
	w.say("```\n%s\n```", strings.Join(list, "\n"))
	w.say("To make the record again, on a machine that tests may change and that does nothing else, and then this page:")
	w.say("```\nFETTLE_PROOFS=1 FETTLE_TEST_REQUIRE=1 FETTLE_TEST_DISPOSABLE=1 go test -count=1 -v -timeout 60m -run '^TestPuppet$' ./test/proofs\nFETTLE_UPDATE_GOLDEN=1 go test -count=1 -run '^TestPuppetPage$' ./test/proofs\n```")
}
