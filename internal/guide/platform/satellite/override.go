package satellite

import (
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/unit"
)

// overrideSet is the set of keys in custom-hiera.yaml that the selected size also sets.
const overrideSet = "satellite.override"

// overrides returns the keys of custom-hiera.yaml that the size also sets.
func (s *satellite) overrides() (names []string, unknown string) {
	i := s.readInstaller()
	if i.customFile.unknown != "" {
		return nil, i.customFile.unknown
	}
	if p := s.find(); p.role == "capsule" {
		return nil, ""
	}
	for key := range i.custom {
		_, _, ok, unknown := s.sizeCell(key)
		if unknown != "" {
			return nil, unknown
		}
		if ok {
			names = append(names, key)
		}
	}
	slices.SortFunc(names, func(a, b string) int { return i.custom[a].line - i.custom[b].line })
	return names, ""
}

func (s *satellite) overridden() fact.Answer {
	names, unknown := s.overrides()
	if unknown != "" {
		return fact.Answer{Unknown: unknown, At: customHiera}
	}
	return fact.Answer{Value: append([]string{}, names...), At: s.firstLocked(names)}
}

// firstLocked returns the line of the first key that is not needed, else of the first key.
func (s *satellite) firstLocked(names []string) string {
	i := s.readInstaller()
	if len(names) == 0 {
		return customHiera
	}
	at := slices.IndexFunc(names, func(key string) bool { return !strings.HasPrefix(key, "qpid::") && !s.needed(key) })
	return i.customFile.at(i.custom[names[max(0, at)]].line)
}

func (s *satellite) unsuited() fact.Answer {
	a := s.overridden()
	if names, ok := a.Value.([]string); ok {
		a.Value = slices.DeleteFunc(names, func(key string) bool { return !s.needed(key) })
	}
	return a
}

// needed reports whether a key belongs in custom-hiera.yaml: its value suits the machine and
// the size's value does not, or the Tuning Guide sets it for every size.
func (s *satellite) needed(key string) bool {
	return s.sizeSuits(key).Value == false && s.overrideSuits(key).Value == true || s.overrideInGuide(key).Value == true
}

// guided has PostgreSQL options that the Tuning Guide sets "irrespective of a tuning profile"
// (Satellite 6.12 Tuning Guide, 5.7), with bounds. A bound of 0 means the size's value. The
// maximum of the buffers is a quarter of the memory.
var guided = map[string]struct{ least, most float64 }{
	"max_connections":              {0, 1000},
	"shared_buffers":               {2 << 30, 0},
	"work_mem":                     {0, 8 << 20},
	"autovacuum_vacuum_cost_limit": {0, 2000},
}

// overrideInGuide answers whether the Tuning Guide sets the value of custom-hiera.yaml for every size.
func (s *satellite) overrideInGuide(key string) fact.Answer {
	mine, size := s.overrideValue(key), s.sizeValue(key)
	for _, a := range []fact.Answer{mine, size} {
		if a.Unknown != "" || a.Value == nil {
			return a
		}
	}
	option, isOption := strings.CutPrefix(key, configEntries)
	g, is := guided[option]
	if !isOption || !is {
		return fact.Answer{Value: false, At: mine.At}
	}
	value, err1 := readOption(option, mine.Value.(string))
	of, err2 := readOption(option, size.Value.(string))
	if g.least == 0 {
		g.least = of
	}
	if option == "shared_buffers" {
		g.most = value
		if ram, known := s.subject.Answer("memory.total_bytes").Value.(float64); known {
			g.most = ram / 4
		}
	}
	return fact.Answer{Value: err1 == nil && err2 == nil && value >= g.least && value <= g.most, At: mine.At}
}

// sizeSuits answers whether the size's value suits the machine.
func (s *satellite) sizeSuits(key string) fact.Answer { return s.suits(key, s.sizeValue(key)) }

// overrideSuits answers whether the value of custom-hiera.yaml suits the machine.
func (s *satellite) overrideSuits(key string) fact.Answer { return s.suits(key, s.overrideValue(key)) }

// suits answers whether a value suits the machine. Each size is for an amount of memory. On a
// machine with less memory the size's shared buffers may exceed the Tuning Guide's maximum, a
// quarter of the memory (Satellite 6.12 Tuning Guide, 5.7). If the memory is unknown, every value
// suits.
func (s *satellite) suits(key string, a fact.Answer) fact.Answer {
	text, ok := a.Value.(string)
	switch {
	case !ok:
		return a
	case key != configEntries+"shared_buffers":
		return fact.Answer{Value: true, At: a.At}
	}
	buffers, err := readOption("shared_buffers", text)
	ram, known := s.subject.Answer("memory.total_bytes").Value.(float64)
	return fact.Answer{Value: err == nil && (!known || buffers <= ram/4), At: a.At}
}

func (s *satellite) overrideValue(key string) fact.Answer {
	i := s.readInstaller()
	return value(i.custom, i.customFile, key, fact.Text)
}

func (s *satellite) sizeValue(key string) fact.Answer {
	text, at, ok, unknown := s.sizeCell(key)
	switch {
	case unknown != "":
		return fact.Answer{Unknown: unknown}
	case !ok:
		return fact.Answer{}
	}
	return fact.Answer{Value: text, At: at}
}

func (s *satellite) overrideLower(key string) fact.Answer {
	a, b := s.overrideValue(key), s.sizeValue(key)
	for _, x := range []fact.Answer{a, b} {
		if x.Unknown != "" || x.Value == nil {
			return x
		}
	}
	mine, err1 := unit.ParseSize(a.Value.(string))
	size, err2 := unit.ParseSize(b.Value.(string))
	return fact.Answer{Value: err1 == nil && err2 == nil && mine < size, At: a.At}
}
