package satellite

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	internalproduct "fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/rules"
)

// installer has the options of foreman-installer.
type installer struct {
	tuning  fact.Answer
	answers map[string]entry
	file    file // of the answers

	custom     map[string]entry
	customFile file
}

const (
	customHiera = "/etc/foreman-installer/custom-hiera.yaml"
	// configEntries is the key prefix of PostgreSQL's options in custom-hiera.yaml.
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
	i.tuning = fact.Answer{Unknown: f.unknown, Value: nil, At: f.path}
	if f.unknown == "" {
		i.tuning.Value = "default" // the installer's default
	}
	for _, key := range []string{":facts/tuning", ":facts/:tuning", ":custom/tuning", ":custom/:tuning"} {
		if v, ok := e[key]; ok {
			i.tuning = fact.Answer{Value: v.text, At: f.at(v.line)}
			break
		}
	}
	if name := e[":answer_file"].text; name != "" {
		i.answers, i.file = s.yaml(within("/etc/foreman-installer", name))
	} else {
		i.file = file{path: f.path, unknown: cmp.Or(f.unknown, f.path+" does not name an answer file")}
	}
	return i
}

func (s *satellite) tuning() fact.Answer { return s.readInstaller().tuning }

// told returns a function that answers with a number from the installer's answers file, which its
// command line sets.
func told(class, parameter string) func(*satellite) fact.Answer {
	return func(s *satellite) fact.Answer {
		i := s.readInstaller()
		if i.file.unknown != "" {
			return i.file.answer()
		}
		// A key of custom-hiera.yaml takes precedence.
		if _, ok := i.custom[class+"::"+parameter]; ok {
			return value(i.custom, i.customFile, class+"::"+parameter, fact.Number)
		}
		return value(i.answers, i.file, class+"/"+parameter, fact.Number)
	}
}

func (s *satellite) hieraKeys() fact.Answer {
	i := s.readInstaller()
	if !i.customFile.exists || i.customFile.unknown != "" {
		return i.customFile.answer()
	}
	return fact.Answer{Value: append([]string{}, slices.Sorted(maps.Keys(i.custom))...), At: customHiera}
}

// checkpointSegments answers with custom-hiera.yaml's checkpoint_segments, an obsolete option.
func (s *satellite) checkpointSegments() fact.Answer {
	i := s.readInstaller()
	if !i.customFile.exists || i.customFile.unknown != "" {
		return i.customFile.answer()
	}
	if e, ok := i.custom[configEntries+"checkpoint_segments"]; ok {
		return fact.Answer{Value: e.text, At: i.customFile.at(e.line)}
	}
	return fact.Answer{Value: "", At: customHiera}
}

// sizes returns the table of the installer's settings per size, for rules and sizing.
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

// sizeCell returns the value that the selected size sets for a Hiera key: from the installer's
// files if present, else from the published ones. ok is false if the size does not set the key.
func (s *satellite) sizeCell(key string) (text, at string, ok bool, unknown string) {
	a := s.tuning()
	size, _ := a.Value.(string)
	if a.Unknown != "" || size == "" {
		return "", "", false, cmp.Or(a.Unknown, "the installer has no size (--tuning)")
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
		return "", "", false, cmp.Or(p.unknown, fmt.Sprint(err))
	}
	e, err := t.Edition(p.version)
	if err != nil {
		return "", "", false, err.Error()
	}
	row, err := e.Row(size)
	if err != nil {
		return "", "", false, err.Error()
	}
	published := "what the installer sets for the size " + size
	switch v := row.Cells[key].(type) {
	case nil:
		return "", "", false, ""
	case float64:
		if column := slices.IndexFunc(t.Columns, func(c rule.Column) bool { return c.Name == key }); t.Columns[column].Unit == "bytes" {
			return ofBytes(v), published, true, ""
		}
		return rule.Print(v), published, true, ""
	default:
		return fmt.Sprint(v), published, true, ""
	}
}

// database returns a function that answers with an option of the machine's PostgreSQL server.
// Before there is a server, the answer is the value that the installer would set, marked as
// intended.
func database(option string, as fact.Type) func(*satellite) fact.Answer {
	return func(s *satellite) fact.Answer {
		switch local := s.databaseLocal(); {
		case local.Unknown != "":
			return local
		case local.Value == false:
			return fact.Answer{Unknown: "the database is on another machine", At: local.At}
		}
		switch there, unknown := s.setUp("postgresql"); {
		case unknown != "":
			return fact.Answer{Unknown: unknown}
		case !there:
			return s.intendedDatabase(configEntries+option, as)
		}
		a := s.subject.Answer("postgresql." + option)
		if a.Value == nil && a.Unknown == "" && option == "checkpoint_completion_target" {
			a = s.checkpointTarget()
		}
		if v, ok := a.Value.(float64); ok {
			a.Value = inInputUnit(option, v)
		}
		return a
	}
}

// inInputUnit converts a PostgreSQL parameter to the input's unit. Files and Satellite's guidance
// have log_min_duration_statement in milliseconds.
func inInputUnit(option string, v float64) float64 {
	if option == "log_min_duration_statement" && v > 0 {
		return v * 1000
	}
	return v
}

// setUp reports whether a product of a Satellite is configured on the machine.
func (s *satellite) setUp(product string) (there bool, unknown string) {
	if p := s.find(); p.unknown != "" {
		return false, p.unknown
	}
	all, unknown := s.subject.Items(product)
	if unknown != "" || len(all) > 0 {
		return unknown == "", unknown
	}
	if s.host.IsCopiedTree() {
		if _, err := internalproduct.Read(s.host); err != nil {
			return false, "unknown whether this machine has " + product + ": its configuration is not in this copy, and " + err.Error()
		}
	}
	return false, ""
}

// intendedDatabase answers with the value that the installer would set for PostgreSQL: from
// custom-hiera.yaml, else from the size.
func (s *satellite) intendedDatabase(key string, as fact.Type) fact.Answer {
	const intended = "intended value, because PostgreSQL is not set up on this machine: "
	i := s.readInstaller()
	if i.customFile.unknown != "" {
		return i.customFile.answer()
	}
	if _, ok := i.custom[key]; ok {
		a := value(i.custom, i.customFile, key, as)
		a.At = intended + a.At
		return a
	}
	text, at, ok, unknown := s.sizeCell(key)
	if !ok {
		return fact.Answer{Unknown: unknown}
	}
	return platform.Typed(text, as, intended+at)
}

// checkpointTarget answers with PostgreSQL's default checkpoint_completion_target: 0.9 from
// version 14 on, 0.5 before.
func (s *satellite) checkpointTarget() fact.Answer {
	a := s.subject.Answer("postgresql.version")
	version, ok := a.Value.(string)
	if !ok {
		return fact.Answer{Unknown: "no file sets this option, and the default depends on the version: " + cmp.Or(a.Unknown, "version unknown"), At: a.At}
	}
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	switch {
	case err != nil:
		return fact.Answer{Unknown: "no file sets this option, and the default depends on the version, which is " + strconv.Quote(version), At: a.At}
	case n >= 14:
		return fact.Answer{Value: 0.9, At: "the default of PostgreSQL " + version}
	}
	return fact.Answer{Value: 0.5, At: "the default of PostgreSQL " + version}
}
