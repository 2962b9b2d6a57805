package puppet

import (
	"cmp"
	"fmt"
	"math"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// interpreters calculates the number of JRuby instances for the remaining work, and Java's memory
// for them.
func (p *plan) interpreters() error {
	work, of := p.log.Busiest, "the busiest minute"
	if p.static || p.cached {
		work, of = p.log.BusiestRest, "the busiest minute, without what static catalogs or a cache answer"
	}
	most := max(1, p.CPUs-1)
	busy := p.figure("busy percent") / 100
	want := max(1, sizing.Ceil(work, busy))
	why := text.Sprintf("%.2f requests in progress in %s, each interpreter busy for %.0f %% at most", work, of, 100*busy)
	if want > most {
		p.Note("the log has %.2f requests in progress in %s, but %d CPUs serve only %s: the other requests wait. Add compilers, or make agents run less often; the time of a request in the log includes its wait for an interpreter", work, of, p.CPUs, text.Count(most, "interpreter"))
		want, why = most, why+text.Sprintf("; %d CPUs serve %d (P08)", p.CPUs, most)
	}
	// The server keeps its interpreters if the CPUs suffice, because the log may be from a quiet
	// time.
	if has := p.Server.Interpreters; min(has, most) > want {
		had := "as configured now"
		if has > most {
			had = text.Sprintf("%s serve %d of the %d configured interpreters (P08)", text.Count(p.CPUs, "CPU"), most, has)
		}
		want, why = min(has, most), text.Sprintf("%s; %s, though %d would suffice", had, why, max(1, sizing.Ceil(work, busy)))
	}
	heapEach, codeEach, codeMost := p.figure("heap each"), p.figure("code cache each"), p.figure("code cache most")
	memory := func(n int) (heap, code, all float64) {
		heap, code = heapEach*float64(n+1), math.Min(codeMost, codeEach*float64(n))
		return heap, code, heap + code + p.figure("java itself")
	}
	share := p.figure("memory percent") / 100
	fit := want
	for _, _, all := memory(fit); all > share*float64(p.RAM) && fit > 1; _, _, all = memory(fit) {
		fit--
	}
	heap, code, all := memory(fit)
	if all > share*float64(p.RAM) {
		return sizing.Instead("ram", unit.Size(math.Ceil(all/share/(1<<30)))*unit.GiB, "%s does not hold one interpreter: it needs %s of heap, %s of compiled code and %s for Java itself", p.RAM, unit.Size(heap), unit.Size(code), unit.Size(p.figure("java itself")))
	}
	if fit < want {
		p.Note("%s holds %s, and %d are needed: add memory, or a compiler", size(float64(p.RAM)), text.Count(fit, "interpreter"), want)
		why += text.Sprintf("; %s holds %d", size(float64(p.RAM)), fit)
	}
	// The server keeps a larger heap and code cache if the memory suffices.
	whyHeap := fmt.Sprintf("%s for each of %s and as much for the server (P07)", size(heapEach), text.Count(fit, "interpreter"))
	if has := float64(p.Server.Heap); has > heap && has+code+p.figure("java itself") <= share*float64(p.RAM) {
		heap, whyHeap = has, "as configured now; "+whyHeap
	}
	whyCode := fmt.Sprintf("%s for each of %s, %s at most (P11): when it is full Java stops compiling", size(codeEach), text.Count(fit, "interpreter"), size(codeMost))
	if has := float64(p.codeCache()); has > code && heap+has+p.figure("java itself") <= share*float64(p.RAM) {
		code, whyCode = has, "as configured now; "+whyCode
	}
	p.add("jruby", "max-active-instances", fit, "", why, serverTuning(), resourceStatistics())
	p.add("jruby", "heap", uint64(heap), "bytes", whyHeap, serverTuning())
	p.add("jruby", "code_cache", uint64(code), "bytes", whyCode, rule.Cite("puppet-docs", "Puppet Server reserved code cache"))
	p.Max(sizing.Limit{Name: "requests in progress", Maximum: float64(fit), Wanted: sizing.Round(work), Why: of, Sources: []rule.Source{serverTuning()}})
	mib := func(n float64) float64 { return sizing.Round(n / (1 << 20)) }
	p.Spend("memory", "MiB", mib(float64(p.RAM)), sizing.Part{Name: "heap", Amount: mib(heap)}, sizing.Part{Name: "compiled code", Amount: mib(code)}, sizing.Part{Name: "Java itself", Amount: mib(p.figure("java itself"))})
	return p.javaFiles(fit, heap, code, why, whyHeap, whyCode)
}

// javaCodeCache is Java's default size for compiled code, in bytes: 240 MB with tiered compilation
// (OpenJDK 11, java, -XX:ReservedCodeCacheSize; P11).
const javaCodeCache = 240 << 20

// codeCache returns the server's size for compiled code, in bytes.
func (p *plan) codeCache() uint64 { return cmp.Or(p.Server.CodeCache, javaCodeCache) }

// javaFiles writes the files for interpreters and memory if the server's values differ. why,
// whyHeap and whyCode are the reasons.
func (p *plan) javaFiles(interpreters int, heap, code float64, why, whyHeap, whyCode string) error {
	s := p.Server
	right := s.Interpreters == interpreters && s.Heap >= uint64(heap) && p.codeCache() >= uint64(code)
	mb := func(n float64) string { return fmt.Sprintf("%.0fm", math.Ceil(n/(1<<20))) }
	switch {
	case s.Version == "":
		return nil
	case right && !p.forced("jruby"):
		p.add("jruby", "verdict", "in place", "", fmt.Sprintf("%s, %s of heap", text.Count(s.Interpreters, "interpreter"), size(float64(s.Heap))), serverTuning())
		return nil
	case s.Satellite:
		p.add("jruby", "verdict", "adjust", "", "by the installer, which owns the files", serverTuning())
		p.Steps = append(p.Steps, sizing.Step{
			Do: "Interpreters and memory: tell the installer", Command: fmt.Sprintf("satellite-installer --puppet-server-max-active-instances %d --puppet-server-jvm-min-heap-size %s --puppet-server-jvm-max-heap-size %s --puppet-server-jvm-extra-args=-XX:ReservedCodeCacheSize=%s", interpreters, mb(heap), mb(heap), mb(code)),
			Restarts: "puppetserver.service", Check: "fettle check puppet",
		})
		return nil
	}
	options, err := s.OptionSet(s.OptionsText, "jruby-puppet.max-active-instances", fmt.Sprint(interpreters))
	if err != nil {
		p.Note("/%s:%v: set max-active-instances to %d by hand", s.OptionsFile, err, interpreters)
		return nil
	}
	java, err := s.JavaSet(s.JavaText, map[string]string{"heap": mb(heap), "heap_min": mb(heap), "code_cache": mb(code)})
	if err != nil {
		p.Note("/%s:%v: -Xms%s -Xmx%s -XX:ReservedCodeCacheSize=%s by hand", s.JavaFile, err, mb(heap), mb(heap), mb(code))
		return nil
	}
	p.add("jruby", "verdict", "adjust", "", fmt.Sprintf("now %s with %s of heap", text.Count(s.Interpreters, "interpreter"), known(s.Heap)), serverTuning())
	p.Files = append(p.Files,
		sizing.Artefact{Name: s.OptionsFile, What: "the server's own, with max-active-instances", Checked: "Puppet Server's jruby-puppet", Content: withReasons(options, fmt.Sprintf("max-active-instances is %d: %s", interpreters, why))},
		sizing.Artefact{Name: s.JavaFile, What: "the server's own, with Java's memory", Checked: "java(1)", Content: withReasons(java, fmt.Sprintf("the heap of Java is %s: %s; its minimum (-Xms) is the same, so that the memory is reserved at the start", mb(heap), whyHeap), fmt.Sprintf("the cache of compiled code is %s: %s", mb(code), whyCode))})
	p.Steps = append(p.Steps, sizing.Step{
		Do: "Interpreters and memory: put both files in place, and restart the server", Command: "systemctl restart puppetserver.service",
		Restarts: "puppetserver.service, about a minute", Check: "fettle tune --set puppetserver:max_active_instances=N sets the interpreters, and can be undone; fettle check puppet passes P07, P08 and P11",
	})
	return nil
}

func known(n uint64) string {
	if n == 0 {
		return "an unknown amount"
	}
	return size(float64(n))
}

// size prints a number of bytes.
func size(bytes float64) string { return sizing.Amount(bytes, "bytes") }
