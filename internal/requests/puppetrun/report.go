// Package puppetrun says where the time of Puppet agents' runs went: on the nodes by the
// reports that their server has stored, and on the server by its log of requests.
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
)

// Report is what an agent reported of one run (Puppet::Transaction::Report, formats 2 to
// 12 of Puppet 2.7 to 8).
type Report struct {
	Node   string    // the name in its certificate
	Began  time.Time // by the node's clock
	Status string    // failed, changed or unchanged
	// Cached says that the run applied a catalog that the node had from before.
	Cached    bool
	Parts     []Part // what the run took time for: stages of it, and types of resources
	Resources []Resource
}

// Part is a time that a report has by a name.
type Part struct {
	Name    string // in lower case: config_retrieval, total, package
	Seconds float64
}

// Resource is what became of one resource.
type Resource struct {
	Name            string  // Package[nginx]
	Seconds         float64 // below 0: it was not evaluated
	Failed, Changed bool
}

// part is a time by its name; false without one.
func (r *Report) part(name string) (float64, bool) {
	for _, p := range r.Parts {
		if p.Name == name {
			return p.Seconds, true
		}
	}
	return 0, false
}

// What a report may hold: host.MaxFileSize, and so many values, which take up to 300 MB
// while it is read. That is a run with more than 25,000 resources.
const mostWeight = 2_000_000

// mostMembers is how many members of a mapping are looked at for one, mostParts how many
// times a report may have.
const (
	mostMembers = 100
	mostParts   = 2000
)

// longestRun is the longest time that is one, in seconds: ten years.
const longestRun = 10 * 365 * 86400

// ErrNoReport is that a text is YAML and no report of an agent.
var ErrNoReport = errors.New("no report of a Puppet agent: it has no host and no time")

// Parse reads a report as Puppet::Reports' store writes it. Of the tags of Ruby's
// objects in it none counts, and what an alias stands for is looked up, never copied.
func Parse(text []byte) (*Report, error) {
	if weight(text) > mostWeight {
		return nil, fmt.Errorf("more than about %d values", mostWeight/2)
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if doc.Kind != yaml.DocumentNode || len(doc.Content) != 1 {
		return nil, ErrNoReport
	}
	top := follow(doc.Content[0])
	r := &Report{Node: scalar(member(top, "host")), Status: scalar(member(top, "status"))}
	began := scalar(member(top, "time"))
	if r.Node == "" || began == "" {
		return nil, ErrNoReport
	}
	var ok bool
	if r.Began, ok = moment(began); !ok {
		return nil, fmt.Errorf("its time is %.60q", began)
	}
	switch scalar(member(top, "cached_catalog_status")) {
	case "", "not_used":
	default:
		r.Cached = true
	}
	if m := member(member(member(top, "metrics"), "time"), "values"); m != nil && m.Kind == yaml.SequenceNode {
		for _, one := range m.Content[:min(len(m.Content), mostParts)] {
			if one = follow(one); one.Kind != yaml.SequenceNode || len(one.Content) < 3 { // name, label, value
				continue
			}
			if s, ok := seconds(follow(one.Content[2])); ok {
				r.Parts = append(r.Parts, Part{strings.ToLower(word(one.Content[0])), s})
			}
		}
	}
	if m := member(top, "resource_statuses"); m != nil && m.Kind == yaml.MappingNode {
		for i := 0; i+1 < len(m.Content); i += 2 {
			status := follow(m.Content[i+1])
			if status.Kind != yaml.MappingNode {
				continue
			}
			one := Resource{Name: scalar(follow(m.Content[i])), Seconds: -1, Failed: yes(status, "failed") || yes(status, "failed_to_restart"), Changed: yes(status, "changed")}
			if s, ok := seconds(member(status, "evaluation_time")); ok {
				one.Seconds = s
			}
			r.Resources = append(r.Resources, one)
		}
	}
	return r, nil
}

// weight is at least the number of values that a text of YAML has: what stands in front
// of each, and how many more there may be for it.
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

// follow is what an alias stands for.
func follow(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// member is that of a mapping by its name; nil without one.
func member(n *yaml.Node, name string) *yaml.Node {
	if n == nil || n.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < min(len(n.Content), 2*mostMembers); i += 2 {
		if word(n.Content[i]) == name {
			return follow(n.Content[i+1])
		}
	}
	return nil
}

// word is a name, which may be a symbol of Ruby.
func word(n *yaml.Node) string { return strings.TrimPrefix(scalar(follow(n)), ":") }

// scalar is a text; empty for none.
func scalar(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		return ""
	}
	if n.Tag == "!binary" || n.Tag == "!!binary" { // what is not UTF-8, or was not known to be
		if text, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(n.Value), "")); err == nil {
			return string(text)
		}
	}
	return n.Value
}

func yes(n *yaml.Node, name string) bool { return scalar(member(n, name)) == "true" }

// seconds reads a time span.
func seconds(n *yaml.Node) (float64, bool) {
	v, err := strconv.ParseFloat(scalar(n), 64)
	return v, err == nil && !math.IsNaN(v) && v >= 0 && v < longestRun
}

// moment reads a time as the versions of Puppet and of Ruby's YAML have written it.
func moment(text string) (time.Time, bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04:05 Z07:00", "2006-01-02 15:04:05 -0700", "2006-01-02T15:04:05Z0700", "Mon Jan 02 15:04:05 -0700 2006"} {
		if t, err := time.Parse(layout, text); err == nil && t.Year() > 0 && t.Year() < 10000 {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
