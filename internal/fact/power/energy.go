package power

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"fettle.dev/fettle/internal/host"
)

// powercapDir has the energy counters of RAPL (Documentation/power/powercap/powercap.rst).
const powercapDir = "/sys/class/powercap"

// zone is a RAPL domain: package-0, or dram in a package.
type zone struct {
	file   string // energy_uj
	name   string // dram
	part   bool   // part of a package
	pkg    int    // number of the package, -1 for the whole platform (psys)
	wrapUJ uint64 // highest value of the counter, in microjoules
	limitW *float64

	lastUJ uint64
	joules float64 // since OpenEnergy
}

// counts reports whether the machine's energy includes this zone: it includes packages, and memory,
// which a package's figure lacks. The other parts are in the package's figure already, and psys,
// the platform, includes the packages.
func (z *zone) counts() bool { return z.pkg >= 0 && (!z.part || z.name == "dram") }

// pollEnergy is the interval between readings of the energy counters. On a busy server they wrap
// around after some minutes.
const pollEnergy = 30 * time.Second

// Energy adds up the energy that RAPL measures.
type Energy struct {
	host  *host.Host
	mu    sync.Mutex
	zones []*zone
	why   string // reason why energy cannot be read; "" if it can
}

// OpenEnergy reads the counters, and starts to add up the energy.
func OpenEnergy(h *host.Host) *Energy {
	e := &Energy{host: h}
	names, err := h.Files.ReadDir(powercapDir)
	if err != nil {
		e.why = cmp.Or(host.Why(powercapDir, err), "no powercap")
		return e
	}
	for _, prefix := range []string{"intel-rapl:", "intel-rapl-mmio:"} { // the second repeats packages of the first
		for _, d := range names {
			if strings.HasPrefix(d.Name(), prefix) {
				e.open(d.Name())
			}
		}
		if len(e.zones) > 0 {
			break
		}
	}
	if len(e.zones) == 0 {
		e.why = cmp.Or(e.why, "no RAPL in powercap")
	}
	return e
}

// open adds a zone, such as intel-rapl:0 or its part intel-rapl:0:1, if it has an energy counter.
func (e *Energy) open(id string) {
	dir := powercapDir + "/" + id + "/"
	name := func(id string) string { return strings.TrimSpace(e.host.File(powercapDir + "/" + id + "/name").Text) }
	z := &zone{file: dir + "energy_uj", name: name(id), pkg: -1, part: strings.Count(id, ":") > 1}
	var err error
	if z.lastUJ, err = e.count(z.file); err != nil {
		e.why = cmp.Or(e.why, host.Why(z.file, err))
		return
	}
	z.wrapUJ, _ = e.count(dir + "max_energy_range_uj")
	from := z.name
	if z.part {
		from = name(id[:strings.LastIndexByte(id, ':')])
	}
	digits, isPackage := strings.CutPrefix(from, "package-")
	digits, _, _ = strings.Cut(digits, "-") // package-0-die-1
	if n, err := strconv.ParseUint(digits, 10, 16); isPackage && err == nil {
		z.pkg = int(n)
	}
	// Constraint 0 of a package is the long-term limit.
	if uw, err := e.count(dir + "constraint_0_power_limit_uw"); err == nil && uw > 0 {
		z.limitW = new(float64(uw) / 1e6)
	}
	e.zones = append(e.zones, z)
}

func (e *Energy) count(file string) (uint64, error) {
	text, err := e.host.Files.ReadFile(file)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
}

// Why returns the reason why energy cannot be read, or "".
func (e *Energy) Why() string { return e.why }

// poll adds the energy since the last call, and returns the energy since OpenEnergy of each zone, and
// of the packages and their memory.
func (e *Energy) poll() (joules []float64, all float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, z := range e.zones {
		uj, err := e.count(z.file)
		switch {
		case err != nil:
			e.why, uj = "the energy counter of "+z.name+" can no longer be read", z.lastUJ
		case uj >= z.lastUJ:
			z.joules += float64(uj-z.lastUJ) / 1e6
		case z.wrapUJ >= z.lastUJ: // it started again at 0
			z.joules += float64(uj+z.wrapUJ-z.lastUJ) / 1e6
		default:
			e.why = "the energy counter of " + z.name + " fell, and its highest value is unknown"
		}
		z.lastUJ = uj
		joules = append(joules, z.joules)
		if z.counts() {
			all += z.joules
		}
	}
	return joules, all
}

// During runs work and returns work's error, and the energy in joules that the packages and their
// memory used meanwhile. The energy is 0 if RAPL did not count, for example in a very short time.
func (e *Energy) During(work func() error) (joules float64, err error) {
	stop := e.start()
	err = work()
	return stop(), err
}

// StartRun begins to count the energy of a run. The returned function ends the count, and returns
// the energy in joules of the packages and their memory, or nil if RAPL did not measure it (a
// virtual machine's counters may stand still).
func StartRun(h *host.Host) (end func() *float64) {
	e := OpenEnergy(h)
	if e.why != "" {
		return func() *float64 { return nil }
	}
	stop := e.start()
	return func() *float64 {
		if joules := stop(); joules > 0 && e.why == "" {
			return &joules
		}
		return nil
	}
}

// start begins to count. The returned function ends the count, and returns the energy in joules of
// the packages and their memory.
func (e *Energy) start() (stop func() float64) {
	_, before := e.poll()
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(pollEnergy)
		defer tick.Stop()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				e.poll()
			}
		}
	}()
	return func() float64 {
		close(end)
		<-ended
		_, after := e.poll()
		return after - before
	}
}

// setPower sets the power of machine and packages from the energy in joules of each zone. If a
// counter stands still, the power is unknown: virtual machines may have the files without a
// counter.
func (e *Energy) setPower(s *Sample, first, last []float64) {
	if e.why != "" || slices.Equal(first, last) {
		return
	}
	s.Machine.PowerW = new(float64)
	for i, z := range e.zones {
		watts := (last[i] - first[i]) / s.IntervalS
		if z.counts() {
			*s.Machine.PowerW += watts
		}
		at := slices.IndexFunc(s.Packages, func(p Package) bool { return p.Package == z.pkg })
		if at < 0 {
			continue
		}
		p := &s.Packages[at]
		if !z.part { // a package may have several dies
			p.PowerW = new(value(p.PowerW) + watts)
			if z.limitW != nil {
				p.PowerLimitW = new(value(p.PowerLimitW) + *z.limitW)
			}
			continue
		}
		if p.DomainsW == nil {
			p.DomainsW = map[string]float64{}
		}
		p.DomainsW[z.name] += watts
	}
}
