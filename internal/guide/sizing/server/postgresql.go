package server

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// PostgreSQL describes a PostgreSQL server to configure, by its memory, CPUs, disks and
// connections.
type PostgreSQL struct {
	Workload    string // oltp, dw or mixed
	Connections int
	RAM         unit.Size
	CPUs        int
	Disk        string // hdd, ssd, nvme or san
	Version     string

	inputs []*sizing.Input
}

// PostgreSQLFile is the name of the written file.
const PostgreSQLFile = "conf.d/50-fettle.conf"

// NewPostgreSQL returns a request with the defaults.
func NewPostgreSQL() *PostgreSQL {
	w := &PostgreSQL{Workload: "mixed", Disk: "ssd"}
	w.inputs = []*sizing.Input{
		sizing.Word(&w.Workload, "workload", "oltp has many short transactions, dw few and large queries", "oltp", "dw", "mixed"),
		sizing.Count(&w.Connections, "connections", "connections at the same time", 1, 262_143).Because("the limit of PostgreSQL"),
		sizing.Size(&w.RAM, "ram", "memory of the machine, or the part of it for PostgreSQL", 256*unit.MiB, 64*unit.TiB).Because("less leaves nothing to divide, and x86-64 addresses 64 TiB"),
		sizing.Count(&w.CPUs, "cpus", "CPUs of the machine", 1, 1024).Because("the limit of max_parallel_workers"),
		sizing.Word(&w.Disk, "disk", "type of disk with the data", "hdd", "ssd", "nvme", "san"),
		sizing.Text(&w.Version, "version", "version of PostgreSQL, such as 16 (default the newest known)", nil),
	}
	return w
}

// Inputs implements sizing.Request.
func (w *PostgreSQL) Inputs() []*sizing.Input { return w.inputs }

// option is one line of the file.
type option struct{ name, text string }

// plan is a request in progress.
type plan struct {
	*PostgreSQL
	r                   *sizing.Result
	loads, disks, bound *sizing.Edition
	options             []option
}

// Size implements sizing.Request.
func (w *PostgreSQL) Size(_ context.Context, f sizing.Figures) (*sizing.Result, error) {
	if err := w.missing(); err != nil {
		return nil, err
	}
	r, err := sizing.For(f, "postgresql", "postgresql-releases", w.Version)
	if err != nil {
		return nil, err
	}
	row, err := r.Newest("postgresql-releases").Row(r.Version)
	if err != nil {
		return nil, err
	}
	p := &plan{PostgreSQL: w, r: r, loads: r.Newest("postgresql-workloads"), disks: r.Newest("postgresql-disks"), bound: r.Newest("postgresql-bounds")}
	r.RecordInputs(w.inputs)
	err = p.memory(p.parallel(row.Cells["maintenance"] == true))
	if err = cmp.Or(r.Err(), err); err != nil {
		return nil, err
	}
	p.finish()
	return p.r, nil
}

// missing returns an error, with examples, if the request lacks required numbers.
func (w *PostgreSQL) missing() error {
	var all *sizing.InputError
	for _, in := range []struct {
		missing   bool
		name, say string
	}{{w.Connections == 0, "connections", "200"}, {w.RAM == 0, "ram", "16GiB"}, {w.CPUs == 0, "cpus", "8"}} {
		if !in.missing {
			continue
		}
		if all == nil {
			all = &sizing.InputError{Input: in.name, Err: fmt.Errorf("not given; for example %s", in.say)}
		}
		all.Works = append(all.Works, "--"+in.name+"="+in.say)
	}
	if all == nil {
		return nil
	}
	return all
}

// load returns a figure of the workload.
func (p *plan) load(column string) float64 { return p.loads.Number(p.Workload, column) }

// most returns an upper bound of the catalog.
func (p *plan) most(name string) float64 { return p.bound.Number(name, "value") }

// bytes formats a number of bytes as PostgreSQL does, rounded down to kB.
func bytes(n float64) string {
	kb := uint64(n) / 1024
	switch {
	case kb%(1<<20) == 0:
		return fmt.Sprintf("%dGB", kb>>20)
	case kb%(1<<10) == 0:
		return fmt.Sprintf("%dMB", kb>>10)
	}
	return fmt.Sprintf("%dkB", kb)
}

// set adds an option with its value in the file.
func (p *plan) set(name, text, why string, sources []rule.Source) {
	p.options = append(p.options, option{name, text})
	p.r.Add(sizing.Value{Group: "postgresql", Name: name, Value: text, Why: why, Sources: sources})
}

// parallel sets the options for parallel workers. It returns their maximum number.
func (p *plan) parallel(maintenance bool) float64 {
	cpus := float64(p.CPUs)
	if cpus < p.most("parallel from CPUs") {
		return p.most("worker processes by default")
	}
	gather := math.Ceil(cpus / 2)
	if row, err := p.loads.Row(p.Workload); err == nil {
		if most, ok := row.Cells["gather_max"].(float64); ok {
			gather = math.Min(gather, most)
		}
	}
	each := fmt.Sprint(p.CPUs)
	p.set("max_worker_processes", each, "one for each CPU", p.loads.Sources)
	p.set("max_parallel_workers", each, "one for each CPU", p.loads.Sources)
	p.set("max_parallel_workers_per_gather", fmt.Sprintf("%.0f", gather), "half of the CPUs; at most 4, except for a data warehouse", p.loads.Sources)
	if maintenance {
		p.set("max_parallel_maintenance_workers", fmt.Sprintf("%.0f", math.Min(math.Ceil(cpus/2), p.most("maintenance workers most"))), "half of the CPUs, 4 at most", p.loads.Sources)
	}
	return cpus
}

// memory divides the memory among the options.
func (p *plan) memory(workers float64) error {
	ram := float64(p.RAM)
	from, of := p.loads.Sources, sizing.Amount(ram, "bytes")
	p.set("max_connections", fmt.Sprint(p.Connections), "as requested", nil)
	buffers := ram / p.load("buffers_of")
	p.set("shared_buffers", bytes(buffers), text.Sprintf("%s / %.0f", of, p.load("buffers_of")), from)
	p.set("effective_cache_size", bytes(ram*p.load("cache_percent")/100), text.Sprintf("%s x %.0f %%: what the planner assumes to be cached", of, p.load("cache_percent")), from)
	p.set("maintenance_work_mem", bytes(math.Min(ram/p.load("maintenance_of"), p.most("maintenance most"))), text.Sprintf("%s / %.0f, %s at most", of, p.load("maintenance_of"), sizing.Amount(p.most("maintenance most"), "bytes")), from)
	sorts := p.most("sorts of a connection")
	raw := (ram - buffers) / ((float64(p.Connections) + workers) * sorts) / p.load("work_of")
	work := math.Max(raw, p.most("work least"))
	why := text.Sprintf("(%s - shared_buffers) / ((%s + %.0f workers) x %.0f)", of, text.Count(p.Connections, "connection"), workers, sorts)
	if p.load("work_of") > 1 {
		why += text.Sprintf(" / %.0f for %s", p.load("work_of"), p.Workload)
	}
	if work > raw {
		why += fmt.Sprintf(", which would be %s; %s at least", sizing.Amount(raw, "bytes"), sizing.Amount(work, "bytes"))
	}
	p.set("work_mem", bytes(work), why, from)
	huge := "off"
	if buffers >= p.most("huge pages from") {
		huge = "try"
	}
	p.set("huge_pages", huge, "worth it from 2 GiB of shared buffers; size hugepages calculates the pages", p.bound.Sources)
	wal := math.Min(buffers*p.most("wal buffers percent of buffers")/100, p.most("wal buffers most"))
	// A value close to one segment is rounded up to one: segments are written as a whole.
	if wal > 14<<20 {
		wal = p.most("wal buffers most")
	}
	p.set("wal_buffers", bytes(math.Max(wal, p.most("wal buffers least"))), "3 % of shared_buffers, a segment of 16 MiB at most", p.bound.Sources)
	p.set("min_wal_size", bytes(p.load("wal_min")), "kept for the next checkpoint", from)
	p.set("max_wal_size", bytes(p.load("wal_max")), "a large one means few checkpoints, but a long recovery", from)
	p.set("checkpoint_completion_target", fmt.Sprint(p.most("checkpoint target")), "the writes of a checkpoint are spread", p.bound.Sources)
	estimates := "PostgreSQL's default"
	if p.Workload == "dw" {
		estimates = "a data warehouse's plans need better estimates"
	}
	p.set("default_statistics_target", fmt.Sprintf("%.0f", p.load("statistics")), estimates, from)
	p.set("random_page_cost", fmt.Sprint(p.disks.Number(p.Disk, "page_cost")), "of a random read, relative to a sequential one; "+p.Disk, p.disks.Sources)
	p.set("effective_io_concurrency", fmt.Sprintf("%.0f", p.disks.Number(p.Disk, "io")), "concurrent reads of the disks; "+p.Disk, p.disks.Sources)

	mib := func(n float64) float64 { return sizing.Round(n / (1 << 20)) }
	if all := buffers + float64(p.Connections)*work; all > ram*(1-p.most("kernel percent")/100) {
		return sizing.Instead("ram", need(p), "%s does not hold shared_buffers %s and a sort of %s for each of %s: use %s, or fewer connections through a pool (PgBouncer)", p.RAM, bytes(buffers), bytes(work), text.Count(p.Connections, "connection"), need(p))
	}
	p.r.Spend("memory if every connection sorts once", "MiB", mib(ram),
		sizing.Part{Name: "shared_buffers", Amount: mib(buffers)},
		sizing.Part{Name: text.Count(p.Connections, "connection") + " x work_mem", Amount: mib(float64(p.Connections) * work)},
		sizing.Part{Name: "what the kernel keeps", Amount: mib(ram * p.most("kernel percent") / 100)})
	if float64(p.Connections)*work*sorts > ram-buffers {
		p.r.Note("a query may sort more than once: %.0f sorts of all %s at once exceed the memory without shared_buffers", sorts, text.Count(p.Connections, "connection"))
	}
	return nil
}

// need returns the memory for the kernel, the buffers and the smallest sort per connection, in
// whole GiB.
func need(p *plan) unit.Size {
	sorts := float64(p.Connections) * p.most("work least")
	return unit.Size(math.Ceil(sorts/(1-p.most("kernel percent")/100-1/p.load("buffers_of"))/(1<<30))) * unit.GiB
}

// finish writes the file and the steps.
func (p *plan) finish() {
	var b strings.Builder
	fmt.Fprintf(&b, "# PostgreSQL %s, %s, %s, %d CPUs, %s. Written by fettle size postgresql.\n", p.r.Version, p.Workload, p.RAM, p.CPUs, p.Disk)
	for _, o := range p.options {
		fmt.Fprintf(&b, "%s = %s\n", o.name, o.text)
	}
	p.r.Files = append(p.r.Files, sizing.Artefact{Name: PostgreSQLFile, What: "the options, for a directory that postgresql.conf includes", Checked: "PostgreSQL's documentation", Content: b.String()})
	p.r.Steps = append(p.r.Steps,
		sizing.Step{Do: "Install the file; postgresql.conf must have include_dir = 'conf.d'", Command: "install -o postgres -g postgres -m 0600 50-fettle.conf DATA/conf.d/", Check: "SELECT * FROM pg_file_settings WHERE error IS NOT NULL shows nothing"},
		sizing.Step{Do: "Restart PostgreSQL", Command: "systemctl restart postgresql.service", Restarts: "postgresql.service", Check: "pg_isready answers, and SELECT name FROM pg_settings WHERE pending_restart shows nothing"},
	)
	h := &p.r.Headline
	size := func(name string) string {
		n, _ := unit.ParseSize(fmt.Sprint(p.r.Value("postgresql", name).Value)) // of bytes
		return h.Value(name+"_bytes", float64(n), sizing.Amount(uint64(n), "bytes"))
	}
	h.Line("shared_buffers %s, work_mem %s, max_connections %s for %s on %s and %s", size("shared_buffers"), size("work_mem"), h.Count("max_connections", p.Connections, ""), p.Workload,
		h.Count("cpus", p.CPUs, "CPU"), h.Value("memory_bytes", float64(p.RAM), sizing.Amount(uint64(p.RAM), "bytes")))
	p.r.TightestInHeadline()
	h.Line("Starting values by rule of thumb: measure before and after; PostgreSQL restarts")
	p.r.First("postgresql/max_connections", "postgresql/shared_buffers", "postgresql/work_mem", "postgresql/effective_cache_size", "postgresql/*")
	p.r.Note("these are starting values by rule of thumb, independent of the queries: measure before and after")
}
