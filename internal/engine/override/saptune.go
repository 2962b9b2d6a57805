package override

import (
	"path"
	"strings"

	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
)

// saptuneConfig is the file that lists the notes that saptune applies (saptune 3, app/app.go).
const saptuneConfig = "/etc/sysconfig/saptune"

// saptuneNotes are the paths of a note's definition; the first existing one is used.
var saptuneNotes = []struct{ dir, suffix string }{
	{"/var/lib/saptune/working/notes/", ""}, {"/etc/saptune/extra/", ".conf"}, {"/etc/saptune/extra/", ""}, {"/usr/share/saptune/notes/", ""},
}

// readSaptune reads the notes that saptune's service applies, in NOTE_APPLY_ORDER, each with the
// administrator's override of that note. saptune adds a solution's notes to that order.
func readSaptune(r *reader) {
	text, ok := r.file(saptuneConfig)
	if !ok {
		return
	}
	void, condition := r.needsUnit("saptune.service", "this note")
	var notes []string
	for _, a := range parseShellVars(text) {
		if a.key == "NOTE_APPLY_ORDER" {
			notes = strings.Fields(a.value)
		}
	}
	for i, note := range notes {
		if !r.pattern(saptuneConfig, 1) {
			return
		}
		void, condition := void, condition
		if r.exists("/run/saptune/saved_state/" + path.Base(note)) {
			void, condition = "", "" // applied manually in this boot
		}
		r.saptuneNote(note, void, condition, i)
	}
}

func (r *reader) saptuneNote(note, void, condition string, rank int) {
	if strings.Contains(note, "/") {
		r.problem(saptuneConfig, 0, "NOTE_APPLY_ORDER: "+clip(note)+" is not the name of a note")
		return
	}
	file := ""
	for _, n := range saptuneNotes {
		if p := n.dir + note + n.suffix; r.exists(p) {
			file = p
			break
		}
	}
	if file == "" {
		r.unread(saptuneConfig, "NOTE_APPLY_ORDER: the definition of note "+clip(note)+" was not found")
		return
	}
	text, ok := r.file(file)
	if !ok {
		return
	}
	override := map[string]saptuneLine{}
	overrideFile := "/etc/saptune/override/" + note
	if r.exists(overrideFile) {
		text, ok := r.file(overrideFile)
		if !ok {
			return
		}
		for _, l := range parseSaptune(text) {
			override[l.section+" "+l.key] = l
		}
	}
	for _, l := range parseSaptune(text) {
		c := Claim{Source: Saptune, File: file, Line: l.line, Text: l.text, Administrator: strings.HasPrefix(file, "/etc/"), Void: void,
			Condition: both(condition, l.tags), When: "at boot by saptune.service (note " + note + ")"}
		value := l.value
		if o, ok := override[l.section+" "+l.key]; ok {
			c.File, c.Line, c.Text, c.Administrator, value = overrideFile, o.line, o.text, true, o.value
		}
		if value == "" && c.Void == "" {
			c.Void = "left untouched by " + c.Place()
		}
		for _, p := range saptunePlaces(l.section, l.key, value) {
			c.Value = setting.Text(p.value)
			r.addPath(c, p.path, rank)
		}
	}
}

type saptunePlace struct{ path, value string }

// saptunePlaces returns the kernel files that a parameter of a note writes (saptune 3,
// sap/note/sect*.go).
func saptunePlaces(section, key, value string) []saptunePlace {
	one := func(p, v string) []saptunePlace { return []saptunePlace{{p, v}} }
	switch section {
	case "sysctl":
		if k := normalizeSysctl(key); k != "" && !badPath(k) {
			return one("/proc/sys/"+k, value)
		}
	case "sys":
		if k := normalizeSysctl(key); k != "" && !badPath(k) {
			return one("/sys/"+k, value)
		}
	case "vm":
		switch key {
		case "THP":
			return one("/sys/kernel/mm/transparent_hugepage/enabled", strings.ToLower(value))
		case "KSM":
			return one("/sys/kernel/mm/ksm/run", value)
		}
	case "cpu":
		switch key {
		case "governor":
			return one(everyPolicy+"scaling_governor", value)
		case "energy_perf_bias":
			if n, ok := map[string]string{"performance": "0", "normal": "6", "powersave": "15"}[value]; ok {
				value = n
			}
			return one("/sys/devices/system/cpu/cpu*/power/energy_perf_bias", value)
		}
	case "block":
		if attr, ok := map[string]string{
			"IO_SCHEDULER": "scheduler", "NRREQ": "nr_requests", "READ_AHEAD_KB": "read_ahead_kb", "MAX_SECTORS_KB": "max_sectors_kb",
		}[key]; ok {
			return one("/sys/block/*/queue/"+attr, value)
		}
	}
	return nil
}

// saptuneLine is one parameter of a note.
type saptuneLine struct {
	line         int
	text         string
	section, key string
	value        string
	tags         string // tags of its section: conditions on the machine
}

var saptuneParam = text.LazyRegexp(`^([\w.+-]+)\s*([<=>]+)\s*["']*(.*?)["']*$`)

// parseSaptune parses the text of a note (saptune 3, txtparser/ini.go).
func parseSaptune(text string) []saptuneLine {
	var out []saptuneLine
	section, tags := "", ""
	for n, raw := range systemdLines(text) {
		l := strings.TrimSpace(raw)
		switch {
		case l == "" || l[0] == '#':
			continue
		case l[0] == '[':
			section, tags, _ = strings.Cut(strings.TrimSuffix(l[1:], "]"), ":")
			if tags != "" {
				tags = "the tags of its section match this machine: " + tags
			}
			continue
		}
		if i := strings.Index(l, " #"); i >= 0 {
			l = strings.TrimSpace(l[:i])
		}
		m := saptuneParam().FindStringSubmatch(l)
		if m == nil || path.Clean(m[1]) != m[1] {
			continue
		}
		out = append(out, saptuneLine{line: n, text: l, section: section, key: m[1], value: m[3], tags: tags})
	}
	return out
}
