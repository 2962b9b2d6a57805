package satellite

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/platform"
	"fettle.dev/fettle/internal/rule"
	"fettle.dev/fettle/internal/unit"
	"fettle.dev/fettle/rules"
)

// installer is what foreman-installer was told, and what it gives a size.
type installer struct {
	tuning  rule.Answer
	answers map[string]entry
	file    file // of the answers

	custom     map[string]entry
	customFile file
}

const (
	customHiera = "/etc/foreman-installer/custom-hiera.yaml"
	// configEntries is the map of PostgreSQL's options in it.
	configEntries = "postgresql::server::config_entries/"
)

func (s *satellite) readInstaller() *installer {
	if s.installer != nil {
		return s.installer
	}
	i := &installer{}
	s.installer = i
	i.custom, i.customFile = s.yaml(customHiera)
	_, f := s.scenario()
	if !f.exists {
		i.tuning, i.file = f.answer(), f
		return i
	}
	e, f := s.yaml(f.path)
	i.tuning = rule.Answer{Unknown: f.unknown, Value: nil, At: f.path}
	if f.unknown == "" {
		i.tuning.Value = "default" // what the installer takes where nobody chose
	}
	for _, key := range []string{":facts/tuning", ":facts/:tuning", ":custom/tuning", ":custom/:tuning"} {
		if v, ok := e[key]; ok {
			i.tuning = rule.Answer{Value: v.text, At: f.at(v.line)}
			break
		}
	}
	if name := e[":answer_file"].text; name != "" {
		i.answers, i.file = s.yaml(within("/etc/foreman-installer", name))
	} else {
		i.file = file{path: f.path, unknown: or(f.unknown, f.path+" names no answer file")}
	}
	return i
}

func (s *satellite) tuning() rule.Answer { return s.readInstaller().tuning }

// told is a number among the installer's answers, which its command line sets.
func told(class, parameter string) func(*satellite) rule.Answer {
	return func(s *satellite) rule.Answer {
		i := s.readInstaller()
		if i.file.unknown != "" {
			return i.file.answer()
		}
		// A key of custom-hiera.yaml goes before an answer.
		if _, ok := i.custom[class+"::"+parameter]; ok {
			return value(i.custom, i.customFile, class+"::"+parameter, rule.Number)
		}
		return value(i.answers, i.file, class+"/"+parameter, rule.Number)
	}
}

func (s *satellite) hieraKeys() rule.Answer {
	i := s.readInstaller()
	if !i.customFile.exists || i.customFile.unknown != "" {
		return i.customFile.answer()
	}
	return rule.Answer{Value: append([]string{}, slices.Sorted(maps.Keys(i.custom))...), At: customHiera}
}

// sizes is the table of what the installer gives each size: the same that rules
// and sizing look up.
var sizes = sync.OnceValues(func() (*rule.Table, error) {
	const name = "satellite-sizes.yaml"
	text, err := rules.FS.ReadFile(name)
	if err != nil {
		return nil, err
	}
	c, err := rule.Load(nil, nil, []rule.File{{Name: name, Text: text}})
	if err != nil {
		return nil, err
	}
	return c.Table("installer_tuning"), nil
})

// sizeCell is what the chosen size says of a key of Hiera: by the installer's
// own files where they are here, else by those that were published. ok is false
// where it says nothing.
func (s *satellite) sizeCell(key string) (text, at string, ok bool, unknown string) {
	a := s.tuning()
	size, _ := a.Value.(string)
	if a.Unknown != "" || size == "" {
		return "", "", false, or(a.Unknown, "the installer was told no size")
	}
	const dir = "/usr/share/foreman-installer/config/foreman.hiera/tuning/"
	common, f := s.yaml(dir + "common.yaml")
	if f.exists && f.unknown == "" {
		own, own_ := s.yaml(dir + "sizes/" + size + ".yaml") // default and development have none
		if v, ok := own[key]; ok {
			return v.text, own_.at(v.line), true, ""
		}
		v, ok := common[key]
		return v.text, f.at(v.line), ok, ""
	}
	p := s.find()
	t, err := sizes()
	if err != nil || p.unknown != "" {
		return "", "", false, or(p.unknown, fmt.Sprint(err))
	}
	e, err := t.Edition(p.version)
	if err != nil {
		return "", "", false, err.Error()
	}
	row, err := e.Row(size)
	if err != nil {
		return "", "", false, err.Error()
	}
	published := "what the installer gives the size " + size
	switch v := row.Cells[key].(type) {
	case nil:
		return "", "", false, ""
	case float64:
		if column := slices.IndexFunc(t.Columns, func(c rule.Column) bool { return c.Name == key }); t.Columns[column].Unit == "bytes" {
			return strings.TrimSuffix(unit.Size(v).String(), "iB") + "B", published, true, "" // 4GiB as PostgreSQL's 4GB
		}
		return rule.Print(v, ""), published, true, ""
	default:
		return fmt.Sprint(v), published, true, ""
	}
}

// database is an option of PostgreSQL: what the server here runs with or has in
// its file, else what the installer gives it by custom-hiera.yaml or the size.
func database(option string, as rule.Type) func(*satellite) rule.Answer {
	return func(s *satellite) rule.Answer {
		switch local := s.databaseLocal(); {
		case local.Unknown != "":
			return local
		case local.Value == false:
			return rule.Answer{Unknown: "the database is on another machine", At: local.At}
		}
		if a := s.subject.Answer("postgresql." + option); a.Value != nil {
			if seconds, ok := a.Value.(float64); ok && option == "log_min_duration_statement" && seconds > 0 {
				a.Value = seconds * 1000 // in files and in Satellite's guidance a number is of milliseconds
			}
			return a
		}
		key := configEntries + option
		i := s.readInstaller()
		if i.customFile.unknown != "" {
			return i.customFile.answer()
		}
		if _, ok := i.custom[key]; ok {
			return value(i.custom, i.customFile, key, as)
		}
		text, at, ok, unknown := s.sizeCell(key)
		if !ok {
			return rule.Answer{Unknown: unknown}
		}
		return platform.Typed(text, as, at)
	}
}
