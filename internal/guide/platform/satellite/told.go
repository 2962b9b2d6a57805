package satellite

import (
	"maps"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/postgresql"
	"fettle.dev/fettle/internal/unit"
)

// toldSet is the set of Hiera keys with which the installer configures a product on this machine:
// those in custom-hiera.yaml, and those of the selected size that it does not override.
const toldSet = "satellite.told"

// databaseOptions are PostgreSQL options whose inputs have the same names.
var databaseOptions = []string{
	"max_connections", "shared_buffers", "work_mem", "effective_cache_size", "autovacuum_vacuum_cost_limit", "log_min_duration_statement", "checkpoint_completion_target",
}

// ofTold returns the keys whose values can be compared with a product's settings.
func ofTold() []string {
	keys := slices.Sorted(maps.Keys(installed))
	for _, option := range databaseOptions {
		keys = append(keys, configEntries+option)
	}
	return keys
}

// toldKeys lists the keys of toldSet: first those of custom-hiera.yaml, in its order.
func (s *satellite) toldKeys() (names []string, unknown string) {
	i := s.readInstaller()
	if i.customFile.unknown != "" {
		return nil, i.customFile.unknown
	}
	for _, key := range ofTold() {
		if _, _, ok, why := s.toldText(key); why != "" {
			return nil, why
		} else if ok && s.isSetBy(key) {
			names = append(names, key)
		}
	}
	line := func(key string) int {
		if e, ok := i.custom[key]; ok {
			return e.line
		}
		return 1 << 30
	}
	slices.SortStableFunc(names, func(a, b string) int { return line(a) - line(b) })
	return names, ""
}

// toldText returns the installer's value for a key, and its position.
func (s *satellite) toldText(key string) (text, at string, ok bool, unknown string) {
	i := s.readInstaller()
	if e, ok := i.custom[key]; ok {
		return e.text, i.customFile.at(e.line), true, ""
	}
	if s.find().role != "server" {
		return "", "", false, "" // a Capsule has no size
	}
	return s.sizeCell(key)
}

// isSetBy reports whether the machine has, or may have, the setting of a key.
func (s *satellite) isSetBy(key string) bool {
	if module, ok := strings.CutPrefix(key, "apache::mod::"); ok {
		module, _, _ = strings.Cut(module, "::")
		if mpm, ok := web("mpm")(s).Value.(string); ok && module != mpm && module != "proxy" {
			return false
		}
	}
	if strings.HasPrefix(key, configEntries) {
		if s.find().role != "server" || s.databaseLocal().Value == false {
			return false
		}
		if there, unknown := s.setUp("postgresql"); !there && unknown == "" {
			return false // the intended value is the installer's anyway
		}
	}
	a := s.ofProduct(key)
	return a.Value != nil || a.Unknown != ""
}

// ofProduct answers with the product's current value for a key.
func (s *satellite) ofProduct(key string) fact.Answer {
	input := installed[key]
	if option, ok := strings.CutPrefix(key, configEntries); ok {
		input = "satellite." + option
	}
	return s.subject.Answer(input)
}

// toldTyped answers with the installer's value, in ofProduct's type and unit.
func (s *satellite) toldTyped(key string) fact.Answer {
	text, at, ok, unknown := s.toldText(key)
	if !ok {
		return fact.Answer{Unknown: unknown}
	}
	if option, ok := strings.CutPrefix(key, configEntries); ok {
		v, err := readOption(option, text)
		if err != nil {
			return fact.Answer{Unknown: at + ": " + option + ": " + err.Error(), At: at}
		}
		return fact.Answer{Value: v, At: at}
	}
	if key == "foreman::keepalive" {
		return fact.Answer{Value: written(text), At: at}
	}
	return platform.Typed(text, fact.Number, at)
}

// written converts a boolean in Hiera to httpd's On or Off, as the class foreman does.
func written(truth string) string { return map[string]string{"true": "On", "false": "Off"}[truth] }

// readOption parses an option as PostgreSQL does, and returns it in the input's unit.
func readOption(option, text string) (float64, error) {
	i := slices.IndexFunc(postgresql.Product.Parameters, func(p product.Parameter) bool { return p.Name == option })
	v, err := postgresql.Product.Parameters[i].Read(text)
	if err != nil {
		return 0, err
	}
	return inInputUnit(option, v.(float64)), nil
}

func (s *satellite) toldValue(key string) fact.Answer {
	a := s.toldTyped(key)
	if a.Value != nil {
		text, _, _, _ := s.toldText(key)
		a.Value = text
	}
	return a
}

// toldProduct answers with the product's value as text that can be compared with toldValue's.
func (s *satellite) toldProduct(key string) fact.Answer {
	a := s.ofProduct(key)
	if n, ok := a.Value.(float64); ok && strings.HasPrefix(key, configEntries) && n >= 1<<20 {
		a.Value = ofBytes(n)
	} else if a.Value != nil {
		a.Value = rule.Print(a.Value)
	}
	return a
}

// ofBytes formats a number of bytes as PostgreSQL does: 4GB.
func ofBytes(n float64) string {
	return strings.TrimSuffix(unit.Size(n).String(), "iB") + "B"
}

// toldHas answers whether the product has the installer's value.
func (s *satellite) toldHas(key string) fact.Answer {
	told, has := s.toldTyped(key), s.ofProduct(key)
	for _, a := range []fact.Answer{told, has} {
		if a.Unknown != "" || a.Value == nil {
			return a
		}
	}
	if a, ok := told.Value.(string); ok {
		b, _ := has.Value.(string)
		return fact.Answer{Value: strings.EqualFold(a, b), At: has.At}
	}
	return fact.Answer{Value: told.Value == has.Value, At: has.At}
}
