package satellite

import (
	"fmt"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/guide/sizing"
	internaltext "fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/unit"
)

// Capsule is the load of one Capsule.
type Capsule struct {
	Name      string
	Hosts     int // that it serves
	Downloads int // at the same time
	REX       int // hosts per job
}

// mostCapsules is the maximum number of Capsules, far more than any Satellite has.
const mostCapsules = 1000

// ParseCapsule parses NAME[,hosts=N][,downloads=N][,rex=N].
func ParseCapsule(s string) (Capsule, error) {
	words := strings.Split(s, ",")
	c := Capsule{Name: strings.TrimSpace(words[0])}
	if c.Name == "" || len(c.Name) > 253 || strings.Trim(c.Name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._") != "" {
		return c, fmt.Errorf("%q does not begin with a name; want a Capsule such as berlin,hosts=3000,downloads=700,rex=3000", s)
	}
	fields := map[string]*int{"hosts": &c.Hosts, "downloads": &c.Downloads, "rex": &c.REX}
	set := map[string]bool{}
	for _, w := range words[1:] {
		key, text, _ := strings.Cut(strings.TrimSpace(w), "=")
		to, known := fields[key]
		switch {
		case !known:
			keys := []string{"hosts", "downloads", "rex"}
			works := c.Name
			if near := internaltext.Nearest(key, keys); near != "" {
				works = strings.Replace(s, w, near+"="+text, 1)
			}
			return c, sizing.Wrong(fmt.Errorf("%q of Capsule %s: want hosts=, downloads= or rex=%s", w, c.Name, internaltext.Suggest(key, keys)), works)
		case set[key]:
			return c, fmt.Errorf("%s of Capsule %s is set twice", key, c.Name)
		}
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > mostHosts {
			return c, internaltext.Errorf("%s=%s of Capsule %s: want a whole number from 0 to %d (%s)", key, text, c.Name, mostHosts, aboutHosts)
		}
		*to, set[key] = n, true
	}
	return c, nil
}

func (w *Request) addCapsule(s string) error {
	c, err := ParseCapsule(s)
	if err != nil {
		return err
	}
	for _, other := range w.Capsules {
		if other.Name == c.Name {
			return fmt.Errorf("Capsule %s is given twice", c.Name)
		}
	}
	if len(w.Capsules) == mostCapsules {
		return internaltext.Errorf("more than %d Capsules", mostCapsules)
	}
	w.Capsules = append(w.Capsules, c)
	return nil
}

func (w *Request) printCapsules() string {
	var all []string
	for _, c := range w.Capsules {
		all = append(all, fmt.Sprintf("%s,hosts=%d,downloads=%d,rex=%d", c.Name, c.Hosts, c.Downloads, c.REX))
	}
	return strings.Join(all, " ")
}

// capsules sizes each Capsule, and adds a note if a Capsule is missing.
func (p *plan) capsules() error {
	e := p.r.Table("capsule-sizes")
	if len(e.Rows) == 0 {
		return p.r.Err()
	}
	hosts := 0
	for _, c := range p.Capsules {
		hosts += c.Hosts
	}
	if hosts > p.Hosts {
		return sizing.OtherOptions("capsule", []string{fmt.Sprintf("--hosts=%d", hosts)}, "the Capsules serve %[2]d hosts, more than the %[1]d of the Satellite", p.Hosts, hosts)
	}
	for i, c := range p.Capsules {
		of, whose := p.Hosts, "of the Satellite"
		if c.Hosts > 0 {
			of, whose = c.Hosts, "that it serves"
		}
		for _, part := range []struct {
			name  string
			hosts int
		}{{"downloads", c.Downloads}, {"rex", c.REX}} {
			if part.hosts > of {
				return sizing.OtherOptions("capsule", p.capped(i, of), "%s=%d of Capsule %s is more than the %s %s", part.name, part.hosts, c.Name, internaltext.Count(of, "host"), whose)
			}
		}
		p.capsule(e, c)
	}
	p.downloads()
	if len(p.Capsules) > 0 {
		p.r.Note("registrations never justify a larger Capsule: the Satellite handles them, and 16 CPUs and 46 GiB were at most 9 %% faster than 4 and 12 (S40)")
	}
	return nil
}

// capped returns the options of all Capsules, with one of them limited to most hosts at once.
func (p *plan) capped(which, most int) (options []string) {
	for i, c := range p.Capsules {
		if i == which {
			c.Downloads, c.REX = min(c.Downloads, most), min(c.REX, most)
		}
		option := "--capsule=" + c.Name
		for _, part := range []struct {
			name string
			n    int
		}{{"hosts", c.Hosts}, {"downloads", c.Downloads}, {"rex", c.REX}} {
			if part.n > 0 {
				option += fmt.Sprintf(",%s=%d", part.name, part.n)
			}
		}
		options = append(options, option)
	}
	return options
}

// downloads compares the downloads from the Satellite itself with the only machine that was
// measured. A larger machine's limit is unknown.
func (p *plan) downloads() {
	most := p.services.Number("downloads", "value")
	cpus, gib := p.services.Number("downloads", "cpus"), p.services.Number("downloads", "ram_gib")
	switch {
	case p.Downloads == 0:
		return
	case float64(p.cpus) > cpus || float64(p.ram) > gib*float64(unit.GiB):
		if float64(p.Downloads) > most {
			p.r.Note("unknown how many hosts can download at once from a Satellite of %d CPUs and %s; a Satellite of %.0f CPUs and %.0f GiB failed above %.0f. If %d are too many, use a Capsule (S63): a Capsule of that size served more than 1000, and --capsule NAME,downloads=%d sizes it", p.cpus, p.ram, cpus, gib, most, p.Downloads, p.Downloads)
		}
		return
	}
	p.r.Max(sizing.Limit{Name: "downloads at once from the Satellite", Maximum: most, Wanted: float64(p.Downloads), Why: internaltext.Sprintf("a Satellite of %.0f CPUs and %.0f GiB failed above", cpus, gib), Sources: []rule.Source{guide("5.9.1")}})
	if float64(p.Downloads) > most {
		p.r.Note("%s that download at once need a Capsule (S63): a Satellite of %.0f CPUs and %.0f GiB failed above %.0f, a Capsule of that size served more than 1000. --capsule NAME,downloads=%d sizes it", internaltext.Count(p.Downloads, "host"), cpus, gib, most, p.Downloads)
	}
}

// capsule selects the smallest size that was measured with this load.
func (p *plan) capsule(e *sizing.Edition, c Capsule) {
	keys := e.Keys()
	job := c.REX
	take := keys[len(keys)-1]
	for _, k := range keys {
		if float64(job) <= e.Number(k, "rex_max") && float64(c.Downloads) <= e.Number(k, "downloads_max") {
			take = k
			break
		}
	}
	// If none was, select the smallest size among those measured with the highest load.
	if float64(job) > e.Number(take, "rex_max") || float64(c.Downloads) > e.Number(take, "downloads_max") {
		take = keys[min(1, len(keys)-1)]
	}
	// S42 counts all hosts of a Capsule, because any may be in a job.
	if take == keys[0] && float64(c.Hosts) > e.Number(take, "rex_max") {
		take = keys[min(1, len(keys)-1)]
	}
	why := "enough for its load; registrations need no larger one"
	switch {
	case take == keys[0]:
	case float64(max(job, c.Hosts)) > e.Number(keys[0], "rex_max"):
		why = internaltext.Sprintf("with 4 CPUs and 12 GiB, a job on 2000 hosts succeeded and one on 4000 failed: %s need 8 CPUs and 24 GiB", internaltext.Count(max(job, c.Hosts), "host"))
	default:
		why = internaltext.Sprintf("%s at once: the smallest size was measured with %.0f, and 8 CPUs and 24 GiB served more than that", internaltext.Count(c.Downloads, "download"), e.Number(keys[0], "downloads_max"))
	}
	group := "capsule " + c.Name
	also := []sizing.Figure{}
	if c.Downloads > 0 {
		for _, k := range keys {
			also = append(also, sizing.Figure{Value: e.Number(k, "seconds"), Unit: "s", What: "for a package with 700 downloads at once, " + k})
		}
	}
	p.r.Add(sizing.Value{Group: group, Name: "size", Value: take, Why: why, Sources: e.Sources, Also: also})
	p.r.Add(sizing.Value{Group: group, Name: "cpus", Value: int(e.Number(take, "cpus")), Why: "of the size " + take, Sources: e.Sources})
	p.r.Add(sizing.Value{Group: group, Name: "memory", Value: uint64(unit.Size(e.Number(take, "ram"))), Unit: "bytes", Why: "of the size " + take, Sources: e.Sources})
	measured := func(name, column string, wanted int, why string) {
		most := e.Number(take, column)
		if float64(wanted) <= most {
			p.r.Max(sizing.Limit{Name: name + " Capsule " + c.Name, Maximum: most, Wanted: float64(wanted), Why: why, Sources: e.Sources})
			return
		}
		// Nothing failed in that measurement, so there is no maximum to exceed.
		p.r.Note("%d %s Capsule %s are more than the %.0f that were measured, so it is unknown whether one Capsule suffices; several Capsules share the load", wanted, name, c.Name, most)
	}
	measured("hosts of a job on", "rex_max", job, map[bool]string{true: "a job on 4000 hosts failed on this size", false: "the most that was measured"}[take == keys[0]])
	measured("downloads at once from", "downloads_max", c.Downloads, "the most that was measured; a size with twice the CPUs needs about half the time for a package")
}
