package etcd

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/product/conf"
)

// sections maps a configuration file's nested mappings to the prefix of their flags
// (embed.configYAML, securityConfig).
var sections = map[string]string{"client-transport-security": "", "peer-transport-security": "peer-"}

// configFile is a parsed etcd configuration file.
type configFile struct {
	// values has the file's scalars by flag name, in the form of a command line.
	values map[string]told
	// keys has all keys of the file, in order; a key in a section is "section.key".
	keys []key
}

// key is a key of a configuration file. It has a value only if that is a scalar.
type key struct {
	name string
	told
}

// readFile parses a configuration file.
func readFile(name, text string) (*configFile, error) {
	out := &configFile{values: map[string]told{}}
	var root yaml.Node
	if err := yaml.Unmarshal([]byte(text), &root); err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if len(root.Content) == 0 {
		return out, nil
	}
	m := root.Content[0]
	if m.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: want a map of keys and values", name, m.Line)
	}
	left := conf.MaxYAMLSteps
	return out, out.add(name, "", "", m, &left)
}

// add reads a mapping, either the file's top level or a section.
func (f *configFile) add(file, section, prefix string, m *yaml.Node, left *int) error {
	all, err := conf.Pairs(m, left)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	for _, p := range all {
		v, name := conf.Aliased(p.Value), p.Key.Value
		at := fmt.Sprintf("%s:%d", file, p.Value.Line)
		scalar := v.Kind == yaml.ScalarNode && v.Tag != "!!null"
		k := key{name: section + name, told: told{at: at}}
		if scalar {
			k.text = v.Value
			f.values[prefix+name] = told{flagText(Known().kind(prefix+name), v.Value), at}
		}
		if p.Value.Anchor == "" { // otherwise an alias may refer to it
			f.keys = append(f.keys, k)
		}
		if prefix, ok := sections[name]; ok && section == "" && v.Kind == yaml.MappingNode {
			if err := f.add(file, name+".", prefix, v, left); err != nil {
				return err
			}
		}
	}
	return nil
}

// flagText converts a scalar of the file to its form on a command line. In the file a duration is
// in nanoseconds, and YAML 1.1 has more words for true.
func flagText(kind, text string) string {
	switch kind {
	case "duration":
		if n, err := strconv.ParseInt(text, 0, 64); err == nil {
			return time.Duration(n).String()
		}
	case "bool":
		switch strings.ToLower(text) {
		case "yes", "on", "y":
			return "true"
		case "no", "off", "n":
			return "false"
		}
	}
	return text
}
