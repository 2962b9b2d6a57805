package proofs

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// inWords translates the labels of a record into the words of the page. The record keeps
// the labels with which it was measured.
var inWords = strings.NewReplacer(
	"Puppet Server itself, as its package sets it up", "Puppet Server alone, as packaged",
	"Puppet Server as its package sets it up", "Puppet Server as packaged",
	"its log, and what to do about it", "analysis of its log",
	"holes of Puppet Server alone", "security holes of Puppet Server alone",
	"Puppet Server on the loopback, started anew", "restart of Puppet Server on the loopback address",
	"the mix, without and with a cache", "load without and with a cache",
	"the source's test of one file", "the article's test of one file",
	"holes", "security holes",
	"static catalogs, with Puppet Server started anew", "static catalogs, after a restart of Puppet Server",
	"directly", "no front end",
	"the first run of a node", "first run of a node",
	"the first catalog of the new server", "first catalog after the restart of Puppet Server",
	"a file was changed just before", "one file changed just before",
	"Apache, the source's cache word for word", "Apache, the article's cache configuration",
	"Apache, the same with mod_cache_disk", "Apache, the article's configuration with mod_cache_disk",
	"Apache, the same made to keep something", "Apache, mod_cache_disk without the query",
	"headers of clients kept", "passes on identity headers of clients",
	"the cache asks for no certificate", "serves its cache without a certificate",
	"the cache without the query", "cache key without the query",
	", as fettle writes it, and Puppet Server on all addresses", ", written by fettle; Puppet Server listens on all addresses",
	", as fettle writes it", ", written by fettle",
	"as it was", "version 1",
	"as it is", "version 2",
	"the other one's", "of the other environment",
	askedNobody, "metadata of a file that a node has just requested; the client has no certificate",
	askedForged, "the same metadata; the client has no certificate, but sends headers that name a node",
	askedElsewhere, "metadata of the same file in the other environment; the client is a node",
	askedStale, "metadata of a file that has just changed; the client is a node",
	askedPurged, "the same metadata, after the deployment script has emptied the cache",
	askedForeign, "the catalog of another node, which that node has just requested; the client is a node",
	askedForgedAlone, "the same catalog; the client has no certificate, but sends headers that name the other node",
	askedForgedNode, "the same catalog; the client has its own certificate and sends headers that name the other node",
	askedPast, "the same catalog from Puppet Server itself, past the front end; the headers name the other node",
	askedNoCatalog, "the same catalog; the client has no certificate",
).Replace

// runs is the table of agents' runs.
func (r *puppetRecord) runs(w *words) {
	w.say("## Requests of an agent run")
	w.say("The catalog has %d files, each with its own source, and one directory of %d files. Static catalogs use the two git-backed commands that `fettle size puppet` writes. In the last run, the agent fetched the changed file in the version that its catalog names.", r.Files, r.Directory)
	rows := [][]string{{"run", "front end", "cache", "static catalogs", "requests to Puppet Server", "`file_metadata` requests", "requests to the front end", "time to apply the catalog", "time of the whole run"}}
	for _, a := range r.Agents {
		front := "-"
		if a.AtFront != nil {
			front = fmt.Sprint(sum(a.AtFront))
		}
		rows = append(rows, []string{inWords(a.What), title(a.Front), yes(a.Cached), yes(a.Static), fmt.Sprint(sum(a.Behind)), fmt.Sprint(a.Behind["GET file_metadata"]), front, ms(a.Applied), ms(a.Whole)})
	}
	w.table(rows...)
	for _, l := range r.Loads {
		if l.Of == "replay" && l.Result.Replay != nil {
			t := l.Result.Replay
			w.say("`fettle load http --replay` replayed the log of the first four runs through %s with its cache, %g times as fast as recorded: %d requests, %s. The result: %.3g answers/s, p50 %s, p99 %s, %d errors.", title(l.Front), t.Speed, t.Requests, t.Left(), l.Result.Whole.AnswerRate, ms(l.Result.Whole.Latency.P50S), ms(l.Result.Whole.Latency.P99S), l.Result.Whole.Errors)
		}
	}
}

// requests returns the total number of requests, in words.
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

// holes writes the table of the answers of each configuration.
func (r *puppetRecord) holes(w *words) {
	w.say("## Security holes")
	w.say("curl sent the same requests to each configuration, in this order. A status in bold is a hole: the configuration answered a request that it should refuse, or its answer was out of date or of the wrong environment. Version 1 is the file of the node's own environment before the change, version 2 after it. The last column has the findings of `fettle check puppet --probe`.")
	for i, q := range puppetQuestions {
		w.item("%d. %s", i+1, inWords(q))
	}
	head := []string{"configuration", "caches"}
	for i := range puppetQuestions {
		head = append(head, fmt.Sprint(i+1))
	}
	rows := [][]string{append(head, "`fettle check`")}
	for _, s := range r.Probes {
		row := []string{inWords(s.Name), yes(s.Kept)}
		for _, q := range puppetQuestions {
			a := s.answer(q)
			switch {
			case a == nil:
				row = append(row, "")
			default:
				text := a.Status
				if a.Status == "000" {
					text = "no answer"
				}
				if a.Says != "" {
					text += " " + inWords(a.Says)
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
	w.say("The configurations differ in these lines; everything else in them is correct:")
	for _, s := range r.Probes {
		if s.Configuration != "" {
			w.item("- %s: `%s`", inWords(s.Name), strings.ReplaceAll(strings.TrimSpace(s.Configuration), "\n", "; "))
		}
	}
	w.say("Apache 2.4 no longer has mod_mem_cache, so it skips the article's lines. With mod_cache_disk, Apache caches nothing: since Puppet 4 each request has the environment in its query, and the answers have no expiry time.")
	w.say("Read request 4 together with request 5: a cached answer can be up to five minutes old, so each deployment has to empty the cache. Static catalogs do not have this problem: the last run in the table above came just after a change of a file.")
	w.say("Request 6 uses GET, as agents of Puppet 2 did. Current agents use POST, and no cache keeps answers to POST.")
}

// found lists the rules that a configuration does not pass.
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

// limits writes what limits the conclusions.
func (r *puppetRecord) limits(w *words) {
	w.say("## Limits of this experiment")
	w.item("- The load generator, the front end and Puppet Server shared %d processors. CPU time that the cache saves is therefore free for the others. The article's generator had a separate machine, and the article does not describe its servers. Compare only ratios with the article.", r.Machine.CPUs)
	var means []string
	for _, l := range r.Loads {
		if l.Of == "mix" && !l.Cached {
			means = append(means, fmt.Sprintf("%s through %s in round %d", ms(l.Result.Whole.Latency.MeanS), title(l.Front), l.Round))
		}
	}
	w.item("- Java gets faster for minutes, which would favor the configuration that is measured last. Therefore %.0f s of load came before the first measurement, and the second round had the reverse order of the first. Without a cache, the mean latency was %s.", r.WarmUpS, strings.Join(means, ", "))
	var left []string
	for _, what := range slices.Sorted(maps.Keys(r.LeftOut)) {
		left = append(left, fmt.Sprintf("%d × %s", r.LeftOut[what], what))
	}
	w.item("- The load repeats requests of one node; the article's log came from many nodes. The load lacks %s, because a load generator cannot repeat them. It requests catalogs with GET and without facts, and the server then uses the facts that it has stored. All requests have the same Accept header.", strings.Join(left, ", "))
	w.item("- The caches were in memory (the test root is a tmpfs) and had space for all answers. Each measurement began with an empty cache.")
	w.item("- nginx logs whole milliseconds, but an answer from its cache takes less than one. The means of nginx with its cache are therefore coarse. `fettle logs compare` calculated the intervals; each one alone has a confidence of 95 %%.")
	w.item("- The test root has no systemd, so each service was started with its own command. `fettle size puppet` also writes systemd units that reload the web server when the certificate revocation list changes; these units did not run.")
}

// commands writes the commands of the experiment: one for each type of load.
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
	w.say("To repeat the experiment, use a machine that tests may change and that does nothing else. The first command measures, the second writes this page:")
	w.say("```\nFETTLE_PROOFS=1 FETTLE_TEST_REQUIRE=1 FETTLE_TEST_DISPOSABLE=1 go test -count=1 -v -timeout 60m -run '^TestPuppet$' ./test/proofs\nFETTLE_UPDATE_GOLDEN=1 go test -count=1 -run '^TestPuppetPage$' ./test/proofs\n```")
}
