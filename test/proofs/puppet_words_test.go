package proofs

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/logs"
	"fettle.dev/fettle/internal/unit"
)

// page is docs/proofs/puppet.md.
func (r *puppetRecord) page() string {
	w := &words{}
	w.say("# Puppet, end to end")
	w.say("The article of Oliver Hookins, *Puppetmaster Performance Tuning with mod_mem_cache* (2012), once more, with the software of today: where the time of a Puppet Server goes, what a cache in front of it is worth, what static catalogs are worth, and which holes both may open. The commands are fettle's, the servers and the agent Debian's. All figures are of the record in [puppet/](puppet/), of which `make golden` makes this page.")
	r.short(w)
	r.machine(w)
	r.wentTo(w)
	r.rates(w)
	r.sourceTest(w)
	r.runs(w)
	r.holes(w)
	r.limits(w)
	r.commands(w)
	return w.String()
}

// words is Markdown that is being written.
type words struct {
	strings.Builder
	listed bool // what was written last is an item of a list
}

// say adds a paragraph.
func (w *words) say(format string, args ...any) {
	if w.Len() > 0 {
		w.WriteString("\n")
	}
	fmt.Fprintf(w, format+"\n", args...)
	w.listed = false
}

// item adds one to a list.
func (w *words) item(format string, args ...any) {
	if !w.listed {
		w.WriteString("\n")
	}
	fmt.Fprintf(w, format+"\n", args...)
	w.listed = true
}

// table adds one, whose first row is its head.
func (w *words) table(rows ...[]string) {
	w.WriteString("\n")
	w.listed = false
	for i, row := range rows {
		for j := range row {
			row[j] = strings.ReplaceAll(row[j], "|", `\|`)
		}
		fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | "))
		if i == 0 {
			w.WriteString("|" + strings.Repeat("---|", len(row)) + "\n")
		}
	}
}

// machine is where and when it was.
func (r *puppetRecord) machine(w *words) {
	w.say("## On what")
	most, least := 0.0, math.Inf(1)
	var stages []string
	for _, s := range r.Stages {
		most, least = max(most, s.LoadBefore), min(least, s.LoadBefore)
		stages = append(stages, fmt.Sprintf("%s (%.0f s)", s.Name, s.Seconds))
	}
	m := r.Machine
	w.say("%s to %s UTC, in %.0f minutes, on %d × %s, %s of memory, kernel %s. The load average of the machine was between %.1f and %.1f where a stage began. The stages: %s.",
		r.Began.Format("2 January 2006 15:04"), r.Ended.Format("15:04"), r.Ended.Sub(r.Began).Minutes(), m.CPUs, m.CPU, unit.Size(m.MemoryBytes).Human(), m.Kernel, least, most, strings.Join(stages, ", "))
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, name+" "+r.Versions[name])
	}
	w.say("Versions: %s.", strings.Join(versions, ", "))
	if most > float64(m.CPUs) {
		w.say("The machine did other work at the time. Times and rates are what was left of it; hold against each other only what is of one table.")
	}
}

// short is what came of it.
func (r *puppetRecord) short(w *words) {
	w.say("## In short")
	plain, static := r.unchanged(false), r.unchanged(true)
	w.item("- An agent with nothing to do, and %d files in its catalog, makes %s, %d of them for `file_metadata`. `fettle size puppet` saw that in the log, and advised static catalogs first.", r.Files, requests(plain.AtFront), plain.AtFront["GET file_metadata"])
	for _, f := range puppetFronts {
		if g := group(r.Compared[f.Name], "GET file_metadata"); g != nil && g.Before != nil && g.After != nil {
			w.item("- At %g requests/s the cache of %s took `file_metadata` from %s to %s on average, by its log.", r.Rate, f.Title, mean(g.Before), mean(g.After))
		}
	}
	w.item("- With static catalogs it makes %s and none for `file_metadata`; with the cache for the rest, %s came to Puppet Server in place of %d. No answer can be out of date.", requests(static.AtFront), requests(static.Behind), sum(plain.Behind))
	w.item("- The source's own configuration does nothing today, and says so nowhere; made to keep something, it gives to anybody what it has kept, and to one environment what is of another. What fettle writes refuses all of that.")
}

// unchanged is the run of an agent that had nothing to do, without a cache or with static
// catalogs.
func (r *puppetRecord) unchanged(static bool) puppetRun {
	for _, a := range r.Agents {
		if a.What == map[bool]string{false: noCache, true: nothingChanged}[static] && a.Static == static {
			return a
		}
	}
	return puppetRun{}
}

// group is one of a comparison.
func group(c logs.Comparison, key string) *logs.Change {
	for i := range c.Groups {
		if strings.Join(c.Groups[i].Key, " ") == key {
			return &c.Groups[i]
		}
	}
	return nil
}

func (r *puppetRecord) wentTo(w *words) {
	w.say("## Where the time goes")
	l := r.Log.Logs[0]
	w.say("`fettle logs --config /etc/puppet/puppetserver` reads the server's own log; it is %s, %s in %s (%s). Four runs of two nodes, of which two were their first, on a server that had just started:", l.Format, l.Duration, l.DurationUnit, l.Why)
	rows := [][]string{{"request", "number", "mean", "share of the time"}}
	for _, g := range r.Log.By[0].Top {
		if g.Key[1] == "" {
			g.Key[1] = "(no indirector)"
		}
		rows = append(rows, []string{strings.Join(g.Key, " "), fmt.Sprint(g.Count), mean(&g), fmt.Sprintf("%.1f %%", 100**g.Share)})
	}
	w.table(rows...)
	w.say("What `fettle size puppet` makes of it; the cache was asked for (`--parts static,cache`), and would otherwise be left out where it says that it does not pay:")
	rows = [][]string{{"part", "verdict", "why"}}
	for _, v := range r.Sizes[puppetFronts[0].Name].Values {
		if v.Name == "verdict" {
			rows = append(rows, []string{v.Group, fmt.Sprint(v.Value), v.Why})
		}
	}
	w.table(rows...)
	of, all := sourceHours("GET file_metadata")
	w.say("In the source's log `file_metadata` took %.1f hours of about 60 that the log is long. Of the %.0f hours of work that its table adds up to that is %.0f %%; catalogs take most, and here %s does, because this log is short and two of its four runs were first ones, which fetch every file. Of a log of the source's own mix (`TestSource003` makes one of its tables) the first line of `fettle logs` is what went to catalogs, and the second that nearly all requests are for `file_metadata`, and what these took. It is what can be saved: the answers are the same again and again, and an agent waits for each of them.", of, all, 100*of/all, strings.Join(r.Log.By[0].Top[0].Key, " "))
	w.say("Then the requests of two runs, with one file changed before each, were made again and again by `fettle load http`, %g each second whatever the servers did: half of what one connection had answered without a cache (%.3g/s). Each front end had %d turns of %.0f s without its cache and with it, and `fettle logs compare` compared its log without with its log with. In the front end without a cache the line `%s` or `%s` is missing, and nothing else. Beside it the source's figures:", r.Rate, r.OneConnection, r.Rounds, r.WindowS, puppetFronts[0].on, puppetFronts[1].on)
	rows = [][]string{{"request", "source: number", "mean before", "after"}}
	for _, f := range puppetFronts {
		rows[0] = append(rows[0], f.Title+": number", "mean before", "after", "change of the mean")
	}
	keys := slices.SortedFunc(maps.Keys(sourceRequests), func(a, b string) int { return sourceRequests[b].count - sourceRequests[a].count })
	for _, key := range keys {
		s := sourceRequests[key]
		row := []string{key, fmt.Sprint(s.count), ms(s.before / 1e3), ms(s.after / 1e3)}
		for _, f := range puppetFronts {
			if g := group(r.Compared[f.Name], key); g == nil || g.Before == nil || g.After == nil {
				row = append(row, "-", "-", "-", "-")
			} else {
				row = append(row, fmt.Sprintf("%d, %d", g.Before.Count, g.After.Count), mean(g.Before), mean(g.After), g.Text)
			}
		}
		rows = append(rows, row)
	}
	w.table(rows...)
	for _, f := range puppetFronts {
		c := r.Compared[f.Name]
		w.say("All requests through %s: %s.", f.Title, c.All.Text)
	}
	w.say("The source says of its own `file_metadata` that it improved by about 60 %%: %.2f times. Its cache was one of each process of Apache, and its answers were kept for five minutes, as here.", sourceRequests["GET file_metadata"].before/sourceRequests["GET file_metadata"].after)
}

// rates is the load of the mix, by turns.
func (r *puppetRecord) rates(w *words) {
	w.say("## The same from the client's side")
	w.say("Latencies from when a request was meant to start to the end of its answer, %s, and the machine meanwhile (`--observe local`). The source saw one task for each core before, and half of one after.", r.secured())
	rows := [][]string{{"round", "front end", "cache", "answers", "p50", "p99", "mean", "processors busy", "tasks for each processor", "verdict"}}
	for _, l := range r.Loads {
		if l.Of != "mix" {
			continue
		}
		f := l.Result.Whole
		busy, queue := "-", "-"
		if len(f.Observed) > 0 {
			busy, queue = fmt.Sprintf("%.0f %%", 100*f.Observed[0].CPUShare), fmt.Sprintf("%.2f", f.Observed[0].RunQueue)
		}
		rows = append(rows, []string{fmt.Sprint(l.Round), title(l.Front), yes(l.Cached), fmt.Sprintf("%.3g/s", f.AnswerRate), ms(f.Latency.P50S), ms(f.Latency.P99S), ms(f.Latency.MeanS), busy, queue, string(l.Result.Word)})
	}
	w.table(rows...)
	for _, x := range []struct {
		word  load.Word
		means string
	}{
		{load.Limited, "more than one start of a hundred came over a millisecond late, because the processors were busy with something else. The lateness is in the latencies."},
		{load.Warming, "answers still got faster towards the end, so that the latencies of this line are those of the last quarter. The comparison of the logs has all of it."},
	} {
		if slices.ContainsFunc(r.Loads, func(l puppetLoad) bool { return l.Of == "mix" && l.Result.Word == x.word }) {
			w.say("`%s`: %s", x.word, x.means)
		}
	}
}

// secured says how the loads were connected.
func (r *puppetRecord) secured() string {
	shown := map[bool]string{true: "with the certificate of a node", false: "without a certificate"}
	for _, l := range r.Loads {
		if l.Of == "mix" && len(l.Result.Servers) == 1 {
			return "over " + l.Result.Servers[0].TLS + " " + shown[l.Result.Servers[0].ClientCertificate]
		}
	}
	return "not known how connected"
}

// sourceTest is the source's own test of one file.
func (r *puppetRecord) sourceTest(w *words) {
	w.say("## The source's test")
	w.say("The metadata of one file of 256 KB over 100 connections, each of which asks again when it has its answer (`fettle load http --connections 100`); the source's generator was JMeter, on a machine of its own.")
	rows := [][]string{{"", "source, before", "after", "times"}, {"requests a minute"}, {"mean"}, {"median"}, {"standard deviation"}, {"load of the server, tasks for each processor"}}
	cells := func(rate, mean, median, deviation float64, load string) {
		for i, cell := range []string{fmt.Sprintf("%.0f", rate), ms(mean), ms(median), ms(deviation), load} {
			rows[i+1] = append(rows[i+1], cell)
		}
	}
	times := func(before, after float64) {
		for i := range rows[1:] {
			rows[i+1] = append(rows[i+1], "")
		}
		rows[1][len(rows[1])-1] = fmt.Sprintf("%.3g", after/before)
	}
	for _, s := range sourceTest {
		cells(s.perMinute, s.meanMS/1e3, s.medianMS/1e3, s.deviationMS/1e3, s.serverLoad)
	}
	times(sourceTest[0].perMinute, sourceTest[1].perMinute)
	for _, f := range puppetFronts {
		rows[0] = append(rows[0], f.Title+", before", "after", "times")
		var rate []float64
		for _, cached := range []bool{false, true} {
			for _, l := range r.Loads {
				if l.Of == "file" && l.Front == f.Name && l.Cached == cached {
					x, queue := l.Result.Whole, "-"
					if len(x.Observed) > 0 {
						queue = fmt.Sprintf("%.1f", x.Observed[0].RunQueue)
					}
					rate = append(rate, 60*x.AnswerRate)
					cells(60*x.AnswerRate, x.Latency.MeanS, x.Latency.P50S, x.Latency.SDS, queue)
				}
			}
		}
		times(rate[0], rate[1])
	}
	w.table(rows...)
}

// ms is a time.
func ms(seconds float64) string {
	if seconds > 0 {
		seconds = time.Duration(seconds * 1e9).Round(time.Microsecond).Seconds()
	}
	return unit.FormatSeconds(seconds)
}

// mean is that of a group of a log: nginx logs whole milliseconds.
func mean(g *logs.Group) string {
	switch {
	case g.MeanS == nil:
		return "-"
	case *g.MeanS == 0:
		return "under 1 ms"
	}
	return ms(*g.MeanS)
}

func title(front string) string {
	for _, f := range puppetFronts {
		if f.Name == front {
			return f.Title
		}
	}
	return "none"
}

func yes(b bool) string { return map[bool]string{true: "yes", false: "no"}[b] }
