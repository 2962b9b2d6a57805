package prometheus

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"fettle.dev/fettle/internal/product/conf"
)

// Limits of a sample's life: flags, or since Prometheus 3 the section storage.tsdb.retention of the
// configuration file. If the section exists, all retention flags are ignored, even for limits that
// the section omits (config, TSDBRetentionConfig).
const (
	retentionTime       = "storage.tsdb.retention.time"
	retentionSize       = "storage.tsdb.retention.size"
	retentionPercentage = "storage.tsdb.retention.percentage" // only in the file
)

// noRetention maps each limit to its value for no limit.
var noRetention = map[string]string{retentionTime: "0", retentionSize: "0B", retentionPercentage: "0"}

func isRetention(name string) bool { return noRetention[name] != "" }

// readRetention parses the section of a configuration file; nil if the file has none.
func readRetention(name, text string) (map[string]told, error) {
	var doc struct {
		Storage struct {
			TSDB struct {
				Retention yaml.Node `yaml:"retention"`
			} `yaml:"tsdb"`
		} `yaml:"storage"`
	}
	if err := yaml.Unmarshal([]byte(text), &doc); err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	section := conf.Aliased(&doc.Storage.TSDB.Retention)
	if section.Kind != yaml.MappingNode {
		return nil, nil
	}
	left := conf.MaxYAMLSteps
	all, err := conf.Pairs(section, &left)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	at := func(n *yaml.Node) string { return name + ":" + strconv.Itoa(n.Line) }
	out := map[string]told{}
	for key, none := range noRetention {
		out[key] = told{none, at(section)}
	}
	for _, p := range all {
		if v := conf.Aliased(p.Value); v.Kind == yaml.ScalarNode && v.Tag != "!!null" {
			out["storage.tsdb.retention."+p.Key.Value] = told{v.Value, at(p.Value)}
		}
	}
	return out, nil
}

// retained returns a retention option from the file's section, or else from the flags. With only a
// size limit, there is no time limit.
func (in *instance) retained(name string) (t told, ok bool, unknown string) {
	switch {
	case in.fileErr != nil:
		return told{}, false, in.fileErr.Error()
	case in.retention != nil:
		return in.retention[name], true, ""
	}
	t, ok = in.flags[name]
	if size, limited := in.flags[retentionSize]; !ok && limited && name == retentionTime && canonical(size.text) != "0" {
		return told{noRetention[name], size.at}, true, ""
	}
	return t, ok, in.unread
}

// running returns a retention option from a server's storageRetention, such as "15d" or "15d or
// 512MiB or 80%"; "" if it lacks the option.
func running(name, text string) string {
	if text == "" {
		return ""
	}
	for part := range strings.SplitSeq(text, " or ") {
		_, noTime := readTime(part)
		_, noSize := readSize(part)
		percentage, isPercentage := strings.CutSuffix(part, "%")
		switch {
		case noTime == nil && name == retentionTime, noSize == nil && name == retentionSize:
			return part
		case isPercentage && name == retentionPercentage:
			return percentage
		}
	}
	return noRetention[name]
}

func readPercentage(text string) (any, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil || !(v >= 0 && v <= 100) {
		return nil, fmt.Errorf("%q is not a percentage from 0 to 100", text)
	}
	return v, nil
}
