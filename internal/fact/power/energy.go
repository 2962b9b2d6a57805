package power

import (
	"cmp"
	"errors"
	"io/fs"
	"path"
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
	id     string // intel-rapl:0:1
	name   string // dram
	parent string // id of the package; "" for a package
	pkg    int    // number of the package, -1 for the whole platform (psys)
	wrapUJ uint64 // highest value of the counter, in microjoules
	limitW *float64

	lastUJ uint64
	joules float64 // since OpenEnergy
}

// Energy adds up the energy that RAPL measures. Call Poll every few minutes, because the counters
// of a busy server wrap around.
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
	switch {
	case errors.Is(err, fs.ErrNotExist):
		e.why = "no powercap"
		return e
	case err != nil:
		e.why = host.Why(powercapDir, err)
		return e
	}
	seen := map[string]bool{}
	for _, kind := range []string{"intel-rapl", "intel-rapl-mmio"} { // the second repeats packages of the first
		var found []*zone
		for _, d := range names {
			if strings.HasPrefix(d.Name(), kind+":") {
				found = append(found, e.open(d.Name()))
			}
		}
		for _, z := range found {
			if z != nil && !seen[z.name+" "+strconv.Itoa(z.pkg)] {
				e.zones = append(e.zones, z)
			}
		}
		for _, z := range e.zones {
			seen[z.name+" "+strconv.Itoa(z.pkg)] = true
		}
	}
	if e.why == "" && len(e.zones) == 0 {
		e.why = "no RAPL in powercap"
	}
	return e
}

// open reads a zone, or returns nil if it has no energy counter.
func (e *Energy) open(id string) *zone {
	dir := powercapDir + "/" + id + "/"
	z := &zone{id: id, name: strings.TrimSpace(e.host.File(dir + "name").Text), pkg: -1}
	energy := e.host.File(dir + "energy_uj")
	uj, err := strconv.ParseUint(strings.TrimSpace(energy.Text), 10, 64)
	switch {
	case energy.Unknown != "":
		e.why = cmp.Or(e.why, energy.Unknown)
		return nil
	case !energy.Exists || err != nil:
		return nil
	}
	z.lastUJ = uj
	z.wrapUJ, _ = strconv.ParseUint(strings.TrimSpace(e.host.File(dir+"max_energy_range_uj").Text), 10, 64)
	from := z.name
	if parent := id[:strings.LastIndexByte(id, ':')]; strings.Contains(parent, ":") {
		z.parent = parent
		from = strings.TrimSpace(e.host.File(powercapDir + "/" + parent + "/name").Text)
	}
	if digits, ok := strings.CutPrefix(from, "package-"); ok {
		digits, _, _ = strings.Cut(digits, "-") // package-0-die-1
		if n, err := strconv.ParseUint(digits, 10, 16); err == nil {
			z.pkg = int(n)
		}
	}
	// Constraint 0 of a package is the long-term limit.
	limit := e.host.File(dir + "constraint_0_power_limit_uw")
	if uw, err := strconv.ParseFloat(strings.TrimSpace(limit.Text), 64); limit.Exists && err == nil && uw > 0 {
		z.limitW = new(uw / 1e6)
	}
	return z
}

// Why returns the reason why energy cannot be read, or "".
func (e *Energy) Why() string { return e.why }

// Poll adds the energy since the last call.
func (e *Energy) Poll() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, z := range e.zones {
		text, err := e.host.Files.ReadFile(path.Join(powercapDir, z.id, "energy_uj"))
		uj, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err != nil || bad != nil {
			e.why = "the energy counter of " + z.name + " can no longer be read"
			continue
		}
		grown := uj - z.lastUJ
		if uj < z.lastUJ { // it started again at 0
			grown = uj + z.wrapUJ - z.lastUJ
			if z.wrapUJ < z.lastUJ {
				e.why = "the energy counter of " + z.name + " fell, and its highest value is unknown"
				grown = 0
			}
		}
		z.joules += float64(grown) / 1e6
		z.lastUJ = uj
	}
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
	e.Poll()
	before := e.joules()
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
				e.Poll()
			}
		}
	}()
	return func() float64 {
		close(end)
		<-ended
		e.Poll()
		return e.joules() - before
	}
}

// joules returns the energy of the packages and their memory since OpenEnergy, as of the last
// Poll.
func (e *Energy) joules() float64 {
	sum := 0.0
	for _, z := range e.zones {
		if z.counts() {
			sum += z.joules
		}
	}
	return sum
}

// counts reports whether a zone counts for the machine: packages, and memory, which a package's
// figure does not include. It does include the package's other parts; psys, the platform, includes
// the packages.
func (z *zone) counts() bool { return z.pkg >= 0 && (z.parent == "" || z.name == "dram") }

// byZone returns the energy since OpenEnergy of each zone.
func (e *Energy) byZone() []float64 {
	out := make([]float64, len(e.zones))
	for i, z := range e.zones {
		out[i] = z.joules
	}
	return out
}

// setPower sets the power of machine and packages from the energy in joules of each zone.
func (e *Energy) setPower(s *Sample, joules []float64) {
	if e.why != "" {
		return
	}
	total, moved := 0.0, false
	for i, z := range e.zones {
		watts := joules[i] / s.IntervalS
		moved = moved || joules[i] > 0
		if z.counts() {
			total += watts
		}
		at := slices.IndexFunc(s.Packages, func(p Package) bool { return p.Package == z.pkg })
		if at < 0 {
			continue
		}
		p := &s.Packages[at]
		if z.parent == "" {
			p.PowerW, p.PowerLimitW = add(p.PowerW, watts), z.limitW
			continue
		}
		if p.DomainsW == nil {
			p.DomainsW = map[string]float64{}
		}
		p.DomainsW[z.name] += watts
	}
	if !moved { // virtual machines may have the files, without a counter behind them
		for i := range s.Packages {
			s.Packages[i].PowerW, s.Packages[i].DomainsW = nil, nil
		}
		return
	}
	s.Machine.PowerW = &total
}

func add(sum *float64, v float64) *float64 {
	if sum != nil {
		v += *sum
	}
	return &v
}
