// Package puppetrun analyzes the time of Puppet agents' runs. It reads the agents' reports
// that the server stored, and the server's request log.
package puppetrun

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	internaltext "fettle.dev/fettle/internal/text"

	"fettle.dev/fettle/internal/product/conf"
)

// Report is an agent's report of one run (Puppet::Transaction::Report, formats 2 to 12 of
// Puppet 2.7 to 8).
type Report struct {
	Node   string    // certificate name
	Began  time.Time // by the node's clock
	Status string    // failed, changed or unchanged
	// Cached reports whether the run applied a catalog from the node's cache.
	Cached    bool
	Parts     []Part // times of stages and of resource types
	Resources []Resource
}

// Part is a named time in a report.
type Part struct {
	Name    string // in lower case: config_retrieval, total, package
	Seconds float64
}

// Resource is the status of one resource in a report.
type Resource struct {
	Name            string  // Package[nginx]
	Seconds         float64 // negative: not evaluated
	Failed, Changed bool
}

// part returns a time by name, and whether the report has it.
func (r *Report) part(name string) (float64, bool) {
	for _, p := range r.Parts {
		if p.Name == name {
			return p.Seconds, true
		}
	}
	return 0, false
}

// mostWeight is the maximum number of values in a report, in addition to host.MaxFileSize.
// Parsing that many takes up to 300 MB. It is enough for 25,000 resources.
const mostWeight = 2_000_000

// mostMembers limits the members searched in a mapping, mostParts the times in a report.
const (
	mostMembers = 100
	mostParts   = 2000
)

// longestRun is the longest plausible time, ten years in seconds.
const longestRun = 10 * 365 * 86400

// ErrNoReport is returned for YAML that is not an agent's report.
var ErrNoReport = errors.New("not a report of a Puppet agent: no host or no time")

// Parse parses a report as written by Puppet's store processor. It ignores the tags of Ruby
// objects, and resolves aliases without copying.
func Parse(text []byte) (*Report, error) {
	if weight(text) > mostWeight {
		return nil, internaltext.Errorf("more than about %d values", mostWeight/2)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, ErrNoReport
	}
	top := conf.Aliased(doc.Content[0])
	r := &Report{Node: scalar(member(top, "host")), Status: scalar(member(top, "status"))}
	began := scalar(member(top, "time"))
	if r.Node == "" || began == "" {
		return nil, ErrNoReport
	}
	var ok bool
	if r.Began, ok = moment(began); !ok {
		return nil, fmt.Errorf("invalid time %.60q", began)
	}
	switch scalar(member(top, "cached_catalog_status")) {
	case "", "not_used":
	default:
		r.Cached = true
	}
	if m := member(member(member(top, "metrics"), "time"), "values"); m != nil && m.Kind == yaml.SequenceNode {
		for _, one := range m.Content[:min(len(m.Content), mostParts)] {
			if one = conf.Aliased(one); one.Kind != yaml.SequenceNode || len(one.Content) < 3 { // name, label, value
				continue
			}
			if s, ok := seconds(conf.Aliased(one.Content[2])); ok {
				r.Parts = append(r.Parts, Part{strings.ToLower(word(one.Content[0])), s})
			}
		}
	}
	if m := member(top, "resource_statuses"); m != nil && m.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(m.Content); i += 2 {
			status := conf.Aliased(m.Content[i+1])
			if status.Kind != yaml.MappingNode {
				continue
			}
			one := Resource{Name: scalar(conf.Aliased(m.Content[i])), Seconds: -1, Failed: yes(status, "failed") || yes(status, "failed_to_restart"), Changed: yes(status, "changed")}
			if s, ok := seconds(member(status, "evaluation_time")); ok {
				one.Seconds = s
			}
			r.Resources = append(r.Resources, one)
		}
	}
	return r, nil
}

// weight returns an upper limit of the number of values in a YAML text. It counts the
// characters that introduce values.
func weight(text []byte) int {
	n := 1
	for i, c := range text {
		next := byte('\n')
		if i+1 < len(text) {
			next = text[i+1]
		}
		switch c {
		case ',', '[', '{':
			n += 2
		case '-':
			if blank(next) {
				n += 2
			}
		case '?':
			if blank(next) {
				n += 3
			}
		case ':':
			if blank(next) || strings.IndexByte(",[]{}\"'", next) >= 0 || i > 0 && strings.IndexByte("\"']}", text[i-1]) >= 0 {
				n += 3
			}
		}
	}
	return n
}

func blank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// member returns a member of a mapping, or nil if none exists.
func member(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < min(len(n.Content), 2*mostMembers); i += 2 {
		if word(n.Content[i]) == name {
			return conf.Aliased(n.Content[i+1])
		}
	}
	return nil
}

// word returns a name without the colon of a Ruby symbol.
func word(n *yaml.Node) string { return strings.TrimPrefix(scalar(conf.Aliased(n)), ":") }

// scalar returns the text of a scalar, or "" for other nodes.
func scalar(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	if n.Tag == "!binary" || n.Tag == "!!binary" { // the text may not be UTF-8
		if text, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), "")); err == nil {
			return string(text)
		}
	}
	return n.Value
}

func yes(n *yaml.Node, name string) bool { return scalar(member(n, name)) == "true" }

// seconds parses a duration in seconds and reports whether it is plausible.
func seconds(n *yaml.Node) (float64, bool) {
	v, err := strconv.ParseFloat(scalar(n), 64)
	return v, err == nil && !math.IsNaN(v) && v >= 0 && v < longestRun
}

// moment parses a time in any notation of Puppet's versions and of Ruby's YAML.
func moment(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02T15:04:05Z0700", "Mon Jan 02 15:04:05 -0700 2006"} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() > 0 && t.Year() < 10000 {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
