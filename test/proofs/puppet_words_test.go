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
	w.say("In 2012, Oliver Hookins put a cache in front of a Puppet master (*Puppetmaster Performance Tuning with mod_mem_cache*, \"the article\" below). This page repeats his experiment with current software. It answers four questions:")
	w.item("1. Where does a Puppet Server spend its time?")
	w.item("2. How much time does a cache in front of it save?")
	w.item("3. How much time do static catalogs save?")
	w.item("4. Which security holes can a cache open?")
	w.say("The commands are those of fettle. The servers and the agent are Debian packages. All figures come from the record in [puppet/](puppet/); `make golden` writes this page from that record.")
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
	w.say("## Test machine")
	most, least := 0.0, math.Inf(1)
	var stages []string
	for _, s := range r.Stages {
		most, least = max(most, s.LoadBefore), min(least, s.LoadBefore)
		stages = append(stages, fmt.Sprintf("%s (%.0f s)", inWords(s.Name), s.Seconds))
	}
	m := r.Machine
	w.say("The experiment ran from %s to %s UTC (%.0f minutes). The machine has %d × %s, %s of memory and kernel %s. At the start of each stage, its load average was between %.1f and %.1f. The stages, in order: %s.",
		r.Began.Format("2 January 2006 15:04"), r.Ended.Format("15:04"), r.Ended.Sub(r.Began).Minutes(), m.CPUs, m.CPU, unit.Size(m.MemoryBytes).Human(), m.Kernel, least, most, strings.Join(stages, ", "))
	var versions []string
	for _, name := range slices.Sorted(maps.Keys(r.Versions)) {
		versions = append(versions, name+" "+r.Versions[name])
	}
	w.say("Versions: %s.", strings.Join(versions, ", "))
	if most > float64(m.CPUs) {
		w.say("Other programs used the machine at the same time, and this changes times and rates. Compare figures only within one table.")
	}
}

// short is what came of it.
func (r *puppetRecord) short(w *words) {
	w.say("## In short")
	plain, static := r.unchanged(false), r.unchanged(true)
	w.item("- An agent with nothing to do and %d files in its catalog makes %s. %d of them are for `file_metadata`. `fettle size puppet` found this in the log and advised static catalogs first.", r.Files, requests(plain.AtFront), plain.AtFront["GET file_metadata"])
	for _, f := range puppetFronts {
		if g := group(r.Compared[f.Name], "GET file_metadata"); g != nil && g.Before != nil && g.After != nil {
			w.item("- At %g requests/s, the cache of %s reduced the mean time of `file_metadata` from %s to %s. The log of %s shows this.", r.Rate, f.Title, mean(g.Before), mean(g.After), f.Title)
		}
	}
	w.item("- With static catalogs, the same agent makes %s and none for `file_metadata`. With a cache as well, only %s reached Puppet Server, instead of %d. No answer can be out of date.", requests(static.AtFront), requests(static.Behind), sum(plain.Behind))
	w.item("- The article's configuration has no effect today, and no message reports this. One more directive makes its cache work, but opens two holes: clients without a certificate get cached answers, and nodes get answers of another environment. The configurations that `fettle size puppet` writes have neither hole.")
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
	w.say("`fettle logs --config /etc/puppet/puppetserver` reads the log of Puppet Server. The format is %s, with %s in %s (%s). The log has four agent runs of two nodes, on a server that had just started. Each node made its first run and one more:", l.Format, l.Duration, l.DurationUnit, l.Why)
	rows := [][]string{{"request", "count", "mean time", "share of all time"}}
	for _, g := range r.Log.By[0].Top {
		if g.Key[1] == "" {
			g.Key[1] = "(no indirector)"
		}
		rows = append(rows, []string{strings.Join(g.Key, " "), fmt.Sprint(g.Count), mean(&g), fmt.Sprintf("%.1f %%", 100**g.Share)})
	}
	w.table(rows...)
	w.say("`fettle size puppet` gave the following advice for this log; the reasons are quoted from the record. Here `--parts static,cache` requested a cache. Without this option, `size puppet` leaves out a cache that does not pay.")
	rows = [][]string{{"part", "verdict", "why"}}
	for _, v := range r.Sizes[puppetFronts[0].Name].Values {
		if v.Name == "verdict" {
			rows = append(rows, []string{v.Group, fmt.Sprint(v.Value), v.Why})
		}
	}
	w.table(rows...)
	of, all := sourceHours("GET file_metadata")
	w.say("The article's log covers about 60 hours, and the times in its table add up to %.0f hours of work. `file_metadata` took %.1f hours, which is %.0f %% of this work; catalogs took the most. Here %s took the most, because this log is short: two of its four runs were first runs, which fetch every file.", all, of, 100*of/all, strings.Join(r.Log.By[0].Top[0].Key, " "))
	w.say("`TestSource003` makes a log with the article's mix of requests. For that log, the first line of `fettle logs` shows the time spent on catalogs. The second line shows that nearly all requests are for `file_metadata`, and how long they took. A cache can save this time: the answers repeat, and an agent waits for each of them.")
	w.say("`fettle load http` then repeated the requests of two agent runs; one file had changed before each run. It sent %g requests each second, however fast the servers answered. This is half the rate that one connection reached without a cache (%.3g/s).", r.Rate, r.OneConnection)
	w.say("In each of %d rounds, each front end ran for %.0f s without its cache and for as long with it. Without a cache, the configuration lacks only the line `%s` or `%s`. `fettle logs compare` compared the logs of each front end. The table also has the article's figures:", r.Rounds, r.WindowS, puppetFronts[0].on, puppetFronts[1].on)
	rows = [][]string{{"request", "article: count", "mean before", "mean after"}}
	for _, f := range puppetFronts {
		rows[0] = append(rows[0], f.Title+": count before, after", "mean before", "mean after", "change of the mean")
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
	w.say("The article says that its `file_metadata` requests improved by about 60 %%; its figures give a factor of %.2f. There, each Apache process had a cache of its own. Answers stayed in the cache for five minutes, as here.", sourceRequests["GET file_metadata"].before/sourceRequests["GET file_metadata"].after)
}

// rates is the load of the mix, by turns.
func (r *puppetRecord) rates(w *words) {
	w.say("## Latencies seen by the client")
	w.say("A latency is the time from the scheduled start of a request to the end of its answer, %s. `--observe local` measured the load of the machine during each row. The article reports one task per core without the cache, and half a task with it.", r.secured())
	rows := [][]string{{"round", "front end", "cache", "answers", "p50", "p99", "mean", "CPU use", "tasks per CPU", "verdict"}}
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
		{load.Limited, "more than 1 % of the requests started over a millisecond late, because other work kept the processors busy. The latencies include this delay."},
		{load.Warming, "answers were still getting faster towards the end. The latencies in this row are therefore those of the last quarter. The comparison of the logs above includes all answers."},
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
	return "over a connection of an unknown type"
}

// sourceTest is the source's own test of one file.
func (r *puppetRecord) sourceTest(w *words) {
	w.say("## The article's test")
	w.say("The test requests the metadata of one file of 256 KB over 100 connections. Each connection sends its next request when it has its answer (`fettle load http --connections 100`). The article used JMeter on a separate machine.")
	rows := [][]string{{"", "article, before", "after", "factor"}, {"requests a minute"}, {"mean"}, {"median"}, {"standard deviation"}, {"load of the server, tasks per CPU"}}
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
		rows[0] = append(rows[0], f.Title+", before", "after", "factor")
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
