package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/measure/search"
	"fettle.dev/fettle/internal/unit"
)

// shipped are the spaces that fettle knows. None has settings of durability or security, nor those
// that need a reboot. Each is cut to the machine before anything is measured.
var shipped = map[string]func(m machineSize) shippedSpace{
	"memory":     memorySpace,
	"disk":       diskSpace,
	"postgresql": postgresqlSpace,
	"puma":       pumaSpace,
}

// SpaceNames returns the names of the shipped spaces, sorted.
func SpaceNames() []string { return slices.Sorted(maps.Keys(shipped)) }

// machineSize describes the machine to which a space is adapted.
type machineSize struct {
	cpus   int
	memory int64  // bytes
	object string // the part of --space after the colon: a disk, or a service
	// read returns a setting's value, or "" if the machine does not have it.
	read func(name string) string
}

// shippedSpace is a space for this machine.
type shippedSpace struct {
	try []string
	// allowed reports whether a combination fits the machine. value(n) is the combination's
	// number for the n-th knob. If allowed is nil, every combination fits.
	allowed func(value func(n int) float64) bool
}

// ParseSpace parses NAME or NAME:OBJECT.
func ParseSpace(word string) error {
	name, object, _ := strings.Cut(word, ":")
	switch _, known := shipped[name]; {
	case !known:
		return fmt.Errorf("want one of %s", strings.Join(SpaceNames(), ", "))
	case name == "disk" && (object == "" || strings.Contains(object, "/")):
		return errors.New("want disk:NAME, such as disk:sda")
	case object != "" && (name == "memory" || name == "postgresql"):
		return fmt.Errorf("want %s without a colon", name)
	}
	return nil
}

// memorySpace: what keeps pages in memory, and how large they are. The steps are the range of each
// value in Documentation/admin-guide/sysctl/vm.rst and mm/transhuge.rst.
func memorySpace(machineSize) shippedSpace {
	return shippedSpace{try: []string{
		"vm.swappiness=1,10,30,60,100",
		"vm.vfs_cache_pressure=50,100,200",
		"vm.dirty_ratio=5,10,20,40",
		"vm.dirty_background_ratio=2,5,10",
		"sysfs:/sys/kernel/mm/transparent_hugepage/enabled=always,madvise,never",
		"sysfs:/sys/kernel/mm/transparent_hugepage/defrag=always,defer,madvise,never",
	}, allowed: func(value func(int) float64) bool {
		// The kernel writes in the background before it makes writers wait.
		return value(3) < value(2)
	}}
}

// diskSpace: the queue of one disk. The kernel lists the schedulers that it has.
func diskSpace(m machineSize) shippedSpace {
	queue := "sysfs:/sys/block/" + m.object + "/queue/"
	try := []string{
		queue + "read_ahead_kb=128,512,2048,8192",
		queue + "rq_affinity=0,1,2",
	}
	var schedulers []string
	for _, name := range []string{"none", "mq-deadline", "bfq", "kyber"} {
		if slices.Contains(strings.FieldsFunc(m.read(queue+"scheduler/available"), func(r rune) bool { return strings.ContainsRune(" []\n", r) }), name) {
			schedulers = append(schedulers, name)
		}
	}
	if len(schedulers) > 1 {
		try = append(try, queue+"scheduler="+strings.Join(schedulers, ","))
	}
	return shippedSpace{try: try}
}

// postgresqlSpace: shares of the memory and costs of the planner (PostgreSQL 15, 20.4 and 20.7).
// fsync, full_page_writes and synchronous_commit are not part of it.
func postgresqlSpace(m machineSize) shippedSpace {
	share := func(part float64) string { return fmt.Sprintf("%.0fMB", part*float64(m.memory)/(1<<20)) }
	return shippedSpace{try: []string{
		"postgresql:shared_buffers=128MB," + share(1.0/8) + "," + share(1.0/4) + "," + share(0.4),
		"postgresql:work_mem=4MB,16MB,64MB",
		"postgresql:random_page_cost=1.1,2,4",
		"postgresql:effective_io_concurrency=1,16,200",
		"postgresql:max_wal_size=1GB,4GB,16GB",
		"postgresql:checkpoint_completion_target=0.5,0.9",
	}, allowed: func(value func(int) float64) bool {
		// A connection may use work_mem several times, most use none of it.
		connections := 100.0
		if n, err := unit.ParseQuantity(m.read("postgresql:max_connections")); err == nil && n > 0 {
			connections = n
		}
		return value(0)+connections*value(1) <= 0.75*float64(m.memory)
	}}
}

// pumaSpace: workers and threads of a Puma server, "foreman" unless named. A worker takes about
// 1 GiB (Satellite 6.12 tuning guide, 5.2.2).
func pumaSpace(m machineSize) shippedSpace {
	if m.object == "" {
		m.object = "foreman"
	}
	most := max(2, min(int(math.Ceil(1.5*float64(m.cpus))), int(0.8*float64(m.memory)/(1<<30))))
	var workers []string
	for i := range 6 {
		if n := fmt.Sprint(1 + int(math.Round(float64((most-1)*i)/5))); !slices.Contains(workers, n) {
			workers = append(workers, n)
		}
	}
	puma := "puma:" + m.object + "/"
	return shippedSpace{try: []string{
		puma + "workers=" + strings.Join(workers, ","),
		puma + "threads_min+" + puma + "threads_max=4,5,8,16,32",
	}}
}

// shippedSpaceHere returns a shipped space for this machine.
func (p *Experiment) shippedSpaceHere(ctx context.Context, word string) (s shippedSpace, err error) {
	if err := ParseSpace(word); err != nil {
		return s, err
	}
	f := fact.Collect(p.Host, "cpu", "memory", "disk")
	name, object, _ := strings.Cut(word, ":")
	if _, known := f.Disk.Len(); name == "disk" && known && f.Disk.Get(object) == nil {
		return s, fmt.Errorf("disk %s not found; this machine has %s", object, cmp.Or(strings.Join(f.Disk.Names(), ", "), "no disks"))
	}
	m := machineSize{cpus: int(f.CPU.Count.Or(0)), memory: f.Memory.TotalBytes.Or(0), object: object}
	if m.cpus == 0 || m.memory == 0 {
		return s, errors.New("the number of CPUs or the size of the memory is unknown; use --try")
	}
	m.read = func(name string) string {
		if dir, is := strings.CutSuffix(name, "scheduler/available"); is {
			text, err := p.Host.Files.ReadFile(strings.TrimPrefix(dir, "sysfs:") + "scheduler")
			if err != nil {
				return ""
			}
			return string(text)
		}
		c, err := p.ParseChange(name + "=0")
		if err != nil {
			return ""
		}
		id, err := p.Kinds.Resolve(c.Setting)
		if err != nil {
			return ""
		}
		v, err := p.Kinds[id.Kind].Read(ctx, id)
		if err != nil {
			return ""
		}
		return v.Text
	}
	return shipped[name](m), nil
}

// permits returns the rule of a shipped space for the knobs of this machine. at is the position of
// each knob in the list of the space.
func (s shippedSpace) permits(knobs []search.Knob, at []int) func(search.Point) bool {
	if s.allowed == nil {
		return nil
	}
	present := search.Space{Knobs: knobs}.Default()
	return func(point search.Point) bool {
		return point.Equal(present) || s.allowed(func(n int) float64 {
			i := slices.Index(at, n)
			if i < 0 {
				return 0
			}
			v, err := number(knobs[i].Levels[point[i]])
			if err != nil {
				return 0 // not set
			}
			return v
		})
	}
}
