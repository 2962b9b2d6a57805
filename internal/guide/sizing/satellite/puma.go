package satellite

import (
	"fmt"
	"math"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// AutoWorkers returns the number of Puma workers that the installer calculates: the smaller of
// CPUs x 1.5 and whole GiB - 1.5, rounded down, at least 0. Some versions have an upper limit.
func AutoWorkers(puma *sizing.Edition, cpus int, ram unit.Size) int {
	n := math.Min(float64(cpus)*puma.Number("installer", "per_cpu"), float64(ram/unit.GiB)-puma.Number("installer", "less_gib"))
	if row, err := puma.Row("installer"); err == nil {
		if most, ok := row.Cells["most"].(float64); ok {
			n = math.Min(n, most)
		}
	}
	return max(0, int(math.Floor(n)))
}

// workerRange returns the minimum and maximum of workers for a machine, and the row of the Tuning
// Guide's table with the machine's CPUs.
func (p *plan) workerRange() (least, most int, row string, err error) {
	up, err := p.sizes.Least("cores_upto", float64(p.cpus))
	if err != nil {
		return 0, 0, "", err
	}
	byCPU, err := p.sizes.Least("cores_below", float64(p.cpus))
	if err != nil {
		return 0, 0, "", err
	}
	byRAM, err := p.sizes.Least("ram_below", float64(p.ram))
	if err != nil {
		return 0, 0, "", err
	}
	least = int(min(p.sizes.Number(byCPU.Key, "workers_min"), p.sizes.Number(byRAM.Key, "workers_min")))
	return least, int(p.sizes.Number(up.Key, "workers_max")), up.Key, nil
}

// threadSteps are the measured numbers of threads and the default, fastest first. Compared with 4
// threads, 16 were 23 % faster, 8 were 14 %, and 32 only 10 %.
var threadSteps = []int{16, 8, 5}

// frontEnd chooses Puma's workers and threads: as many workers as the measurements and the
// budgets allow, with 16 threads if possible.
func (p *plan) frontEnd() error {
	least, most, row, err := p.workerRange()
	if err != nil {
		return err
	}
	auto := AutoWorkers(p.puma, p.cpus, p.ram)
	most = max(least, min(most, auto))
	p.pulp = min(int(p.budget.Number("pulp worker", "most")), p.cpus)
	p.buffers = p.tuned(entries + "shared_buffers")
	if !p.fit(least, most) {
		had := p.ram
		for p.ram < unit.TiB && !p.fit(least, most) {
			p.ram *= 2
		}
		return sizing.Instead("ram", p.ram, "%s does not hold %s in addition to PostgreSQL, Candlepin, Pulp and Dynflow: the machine would swap", had, internaltext.Count(least, "Puma worker"))
	}
	gaveUp := p.moreBuffers(least, most)
	why := internaltext.Sprintf("the Tuning Guide's maximum for %d CPUs, as far as connections and memory allow", p.cpus)
	if p.Content == "heavy" {
		why = internaltext.Sprintf("the fewest recommended for %d CPUs and %s: Pulp and PostgreSQL get the rest", p.cpus, p.ram)
	}
	if gaveUp > 0 {
		why += internaltext.Sprintf("; %d fewer, to give PostgreSQL their memory: its optimum begins at 2 GiB, and on 4 CPUs 4 workers were faster than 6 (S14)", gaveUp)
	}
	p.r.Add(sizing.Value{
		Group: "puma", Name: "workers", Value: p.workers, Why: why, Sources: []rule.Source{guide("5.2.2"), guide("5.2.4")},
		Also: []sizing.Figure{
			{Value: auto, What: internaltext.Sprintf("by the installer's formula, min(%d x 1.5, %d - 1.5)", p.cpus, p.ram/unit.GiB)},
			{Value: fmt.Sprintf("%.0f-%.0f", p.sizes.Number(row, "workers_min"), p.sizes.Number(row, "workers_max")), What: internaltext.Sprintf("by the Tuning Guide's table for %d CPUs (%s)", p.cpus, row)},
		},
	})
	p.tell("--foreman-foreman-service-puma-workers", p.workers, "set, so that the installer does not calculate it", guide("5.2.5"))
	threads := "16 threads were 23 % faster than 4 when hosts register, 32 only 10 %"
	switch {
	case p.Content == "heavy":
		threads = "the default, for a load without registrations"
	case p.threads < threadSteps[0]:
		threads = internaltext.Sprintf("16 would be faster, but %s has connections or memory for only %d", p.size, p.threads)
	}
	p.r.Add(sizing.Value{Group: "puma", Name: "threads", Value: p.threads, Why: threads, Sources: []rule.Source{guide("5.2.4")}})
	p.tell("--foreman-foreman-service-puma-threads-min", p.threads, "equal to the maximum: starting all 16 took 12 % less memory than starting none", guide("5.2.1"))
	p.tell("--foreman-foreman-service-puma-threads-max", p.threads, "of each worker", guide("5.2.4"))
	p.r.Add(sizing.Value{Group: "puma", Name: "db_pool", Value: p.pool, Why: internaltext.Sprintf("the installer derives it from the %s; no option is needed", internaltext.Count(p.threads, "thread")), Sources: p.puma.Sources})
	if auto > p.workers && p.Content != "heavy" {
		p.r.Note("Puma: by default the installer would take %s. On 4 CPUs 8 workers were 8 %% slower than 2, on 8 CPUs 16 were slower than 12, on 32 CPUs 32 and 48 gave too many failures (S14-S16); on 16 CPUs 16 were 55 %% faster than 2, and no more were tried (S17)", internaltext.Count(auto, "worker"))
	}
	if p.Registrations > 0 {
		p.r.Note("2 workers handled up to 480 registrations at once in the Tuning Guide's test, and more workers more (S17); requested: %d", p.Registrations)
		if p.Content == "heavy" {
			p.r.Note("--content heavy limits Puma, which handles registrations: omit it while many hosts register")
		}
	}
	return nil
}

// moreBuffers gives PostgreSQL 2 GiB of buffers if the size has less and the memory suffices with
// the selected threads. 2 GiB is the lower end of the Tuning Guide's optimum for every size (5.7).
// It returns the number of Puma workers that this costs.
func (p *plan) moreBuffers(least, most int) (gaveUp int) {
	const better = 2 << 30
	if p.buffers >= better || better > float64(p.ram)/4 {
		return 0
	}
	own, threads, workers := p.buffers, p.threads, p.workers
	p.buffers = better
	if p.fit(least, most) && p.threads == threads {
		return workers - p.workers
	}
	p.buffers = own
	p.fit(least, most)
	return 0
}

// fit selects threads, and workers between least and most, that fit the budgets. It returns false
// if no choice fits.
func (p *plan) fit(least, most int) bool {
	steps, from := threadSteps, most
	if p.Content == "heavy" {
		steps, from = threadSteps[2:], least
	}
	for _, p.threads = range steps {
		p.pool = max(int(p.puma.Number("installer", "pool_least")), p.threads) + int(p.puma.Number("installer", "pool_more"))
		for p.workers = from; p.workers >= least; p.workers-- {
			_, connections := p.connections()
			if _, memory := p.memory(); connections >= 0 && memory >= 0 {
				return true
			}
		}
	}
	return false
}

// tuned returns the size's number for a Hiera key, or 0.
func (p *plan) tuned(key string) float64 {
	row, err := p.tuning.Row(p.size)
	if err != nil {
		return 0
	}
	v, _ := row.Cells[key].(float64)
	return v
}

// javaOpts returns the size's Java options of Candlepin's Tomcat, or "".
func (p *plan) javaOpts() string {
	row, err := p.tuning.Row(p.size)
	if err != nil {
		return ""
	}
	text, _ := row.Cells["candlepin::java_opts"].(string)
	return text
}

// heapOf returns the -Xmx of Java options in MiB, or 0.
func heapOf(options string) float64 {
	for word := range strings.FieldsSeq(options) {
		if text, ok := strings.CutPrefix(word, "-Xmx"); ok {
			if size, err := unit.ParseSize(text); err == nil {
				return float64(size / unit.MiB)
			}
		}
	}
	return 0
}

const entries = "postgresql::server::config_entries/"

// dynflow returns the total threads of Dynflow's units, and the number of units: an orchestrator,
// the workers, and one for the hosts' queue.
func (p *plan) dynflow() (threads, units float64) {
	workers := p.services.Number("dynflow workers", "value")
	each := p.services.Number("dynflow threads", "value")
	return p.services.Number("dynflow orchestrator", "value") + each*workers + each, workers + 2
}

// connections returns the users of PostgreSQL's connections, as S34 counts them, and the number
// left.
func (p *plan) connections() (parts []sizing.Part, left float64) {
	threads, units := p.dynflow()
	take := func(row string) float64 { return p.budget.Number(row, "connections") }
	parts = []sizing.Part{
		{Name: internaltext.Sprintf("Puma: %s with a pool of %d", internaltext.Count(p.workers, "worker"), p.pool), Amount: float64(p.workers * p.pool)},
		{Name: "Dynflow", Amount: threads + units*take("dynflow unit")},
		{Name: "Candlepin", Amount: take("candlepin")},
		{Name: internaltext.Sprintf("Pulp: %s, API and content", internaltext.Count(p.pulp, "worker")), Amount: float64(p.pulp)*take("pulp worker") + take("pulp services")},
		{Name: "superusers, maintenance, monitoring", Amount: take("reserve")},
	}
	return parts, p.tuned(entries+"max_connections") - sum(parts)
}

// memory returns the users of memory in MiB, as S35 counts them, and the amount left.
func (p *plan) memory() (parts []sizing.Part, left float64) {
	_, units := p.dynflow()
	take := func(row string) float64 { return p.budget.Number(row, "memory") / (1 << 20) }
	heap := take("candlepin")
	if set := heapOf(p.javaOpts()); set > 0 {
		heap = set
	}
	connections := math.Min(p.tuned(entries+"max_connections"), float64(p.workers*p.pool))
	total := float64(p.ram) / (1 << 20)
	parts = []sizing.Part{
		{Name: internaltext.Sprintf("Puma: %s", internaltext.Count(p.workers, "worker")), Amount: float64(p.workers) * take("puma worker")},
		{Name: "PostgreSQL's shared buffers", Amount: p.buffers / (1 << 20)},
		{Name: "a sort of each of Puma's connections", Amount: connections * p.tuned(entries+"work_mem") / (1 << 20)},
		{Name: "Candlepin's heap", Amount: heap},
		{Name: internaltext.Sprintf("Dynflow: %.0f units", units), Amount: units * take("dynflow unit")},
		{Name: internaltext.Sprintf("Pulp: %s", internaltext.Count(p.pulp, "worker")), Amount: float64(p.pulp) * take("pulp worker")},
		{Name: "Redis", Amount: take("redis")},
		{Name: "the rest of the system", Amount: take("reserve")},
		{Name: "what the kernel and a crash kernel keep", Amount: math.Round(total * p.budget.Number("kernel", "percent") / 100)},
	}
	return parts, total - sum(parts)
}

func sum(parts []sizing.Part) (all float64) {
	for _, p := range parts {
		all += p.Amount
	}
	return all
}
