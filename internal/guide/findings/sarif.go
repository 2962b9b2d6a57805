package findings

import (
	"encoding/json"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/text"
)

// The part of SARIF 2.1.0 (OASIS Standard, errata 01) that audits need.
type (
	sarifLog struct {
		Version string     `json:"version"`
		Schema  string     `json:"$schema"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool        sarifTool                `json:"tool"`
		Invocations []sarifInvocation        `json:"invocations"`
		BaseURIs    map[string]sarifArtifact `json:"originalUriBaseIds"`
		ColumnKind  string                   `json:"columnKind"`
		Results     []sarifResult            `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name    string      `json:"name"`
		Version string      `json:"version,omitempty"`
		Rules   []sarifRule `json:"rules"`
	}
	sarifInvocation struct {
		Successful bool   `json:"executionSuccessful"`
		EndTime    string `json:"endTimeUtc"`
		Machine    string `json:"machine,omitempty"`
	}
	sarifRule struct {
		ID         string         `json:"id"`
		Short      sarifText      `json:"shortDescription"`
		Full       sarifText      `json:"fullDescription"`
		Help       sarifText      `json:"help"`
		Default    sarifConfig    `json:"defaultConfiguration"`
		Properties map[string]any `json:"properties"`
	}
	sarifText struct {
		Text     string `json:"text"`
		Markdown string `json:"markdown,omitempty"`
	}
	sarifConfig struct {
		Level string `json:"level"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Kind         string            `json:"kind"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
		Baseline     string            `json:"baselineState,omitempty"`
		Suppressions []sarifSuppressed `json:"suppressions,omitempty"`
		Properties   map[string]any    `json:"properties,omitempty"`
	}
	sarifSuppressed struct {
		Kind          string `json:"kind"`
		Justification string `json:"justification"`
	}
	sarifLocation struct {
		Physical *sarifPhysical `json:"physicalLocation,omitempty"`
		Logical  []sarifLogical `json:"logicalLocations,omitempty"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI    string `json:"uri"`
		BaseID string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		StartLine int `json:"startLine"`
	}
	sarifLogical struct {
		Name string `json:"fullyQualifiedName"`
		Kind string `json:"kind,omitempty"`
	}
)

// sarifSchema is the URL of the format's schema.
const sarifSchema = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

// machineBase is the name for the base of a machine's paths: "/", or the directory of a copy.
const machineBase = "MACHINE"

// SARIF writes audits as a SARIF log with one run per machine. It includes passed findings only if
// all is set.
func SARIF(w io.Writer, version string, all bool, audits ...*Audit) error {
	log := sarifLog{Version: "2.1.0", Schema: sarifSchema, Runs: []sarifRun{}}
	for _, a := range audits {
		log.Runs = append(log.Runs, a.sarif(version, all))
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(log)
}

func (a *Audit) sarif(version string, all bool) sarifRun {
	run := sarifRun{
		Tool:        sarifTool{sarifDriver{Name: "fettle", Version: version, Rules: []sarifRule{}}},
		Invocations: []sarifInvocation{{Successful: true, EndTime: a.Time.UTC().Format("2006-01-02T15:04:05.000Z"), Machine: a.Machine}},
		BaseURIs:    map[string]sarifArtifact{machineBase: {URI: fileURI(strings.TrimSuffix(a.Root, "/") + "/")}},
		ColumnKind:  "unicodeCodePoints",
		Results:     []sarifResult{},
	}
	index := map[string]int{}
	for _, f := range a.Findings {
		_, suppressed := f.IsDisabled()
		if !all && !Bad(f.State) && !suppressed {
			continue
		}
		at, ok := index[f.ID]
		if !ok {
			at = len(run.Tool.Driver.Rules)
			index[f.ID] = at
			run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRuleOf(f, a.where()))
		}
		run.Results = append(run.Results, a.sarifResult(f, at, suppressed))
	}
	if b := a.Baseline; b != nil {
		for _, m := range b.Mended {
			at, ok := index[m.ID]
			if !ok {
				at = len(run.Tool.Driver.Rules)
				index[m.ID] = at
				run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRuleOf(rule.Finding{ID: m.ID, Title: m.Title, Why: m.Title}, ""))
			}
			run.Results = append(run.Results, sarifResult{
				RuleID: m.ID, RuleIndex: at, Kind: "pass", Level: "none", Message: sarifText{Text: "It was " + string(m.Was) + " and no longer is."},
				Locations: []sarifLocation{a.logical(m.Instance)}, Fingerprints: fingerprint(m.ID, m.Instance), Baseline: "absent",
			})
		}
	}
	return run
}

func fingerprint(id, instance string) map[string]string {
	return map[string]string{"fettleFinding/v1": id + "/" + instance}
}

// sarifRuleOf describes the rule of a finding. where precedes the commands of its fixes.
func sarifRuleOf(f rule.Finding, where string) sarifRule {
	help := f.Why
	var tags []string
	level := "warning"
	if f.Rule != nil {
		help = f.Rule.Why
		tags = f.Rule.Platforms
		if f.Rule.Severity == rule.Fail {
			level = "error"
		}
	}
	md := MarkdownText(help) + "\n\n"
	sources := []string{}
	for _, s := range f.Sources {
		sources = append(sources, s.String())
		md += "- source " + MarkdownText(s.String()) + "\n"
	}
	for _, x := range fixLines(f, where) {
		md += "- fix: " + MarkdownText(x.String()) + "\n"
		help += "\nfix: " + x.String()
	}
	return sarifRule{
		ID: f.ID, Short: sarifText{Text: f.Title}, Full: sarifText{Text: f.Title + "."}, Help: sarifText{Text: help, Markdown: md},
		Default: sarifConfig{level}, Properties: map[string]any{"tags": append([]string{}, tags...), "sources": sources},
	}
}

func (a *Audit) sarifResult(f rule.Finding, index int, suppressed bool) sarifResult {
	r := sarifResult{RuleID: f.ID, RuleIndex: index, Kind: "fail", Level: "none", Fingerprints: fingerprint(f.ID, f.Instance)}
	switch f.State {
	case rule.Failed:
		r.Level = "error"
	case rule.Warned:
		r.Level = "warning"
	case rule.Unknown:
		r.Kind = "open"
	case rule.Passed:
		r.Kind = "pass"
	case rule.Reminded:
		r.Kind = "review"
	default:
		r.Kind = "notApplicable"
	}
	if suppressed {
		why, _ := f.IsDisabled()
		r.Suppressions = []sarifSuppressed{{"external", why}}
	}
	r.Message.Text = sentence(f)
	if f.Because != "" {
		r.Properties = map[string]any{"because": f.Because}
	}
	switch f.Change {
	case New:
		r.Baseline = "new"
	case Worse:
		r.Baseline = "updated"
	case Same:
		r.Baseline = "unchanged"
	}
	if a.Baseline != nil && r.Baseline == "" {
		r.Baseline = "unchanged"
	}
	r.Locations = a.locations(f)
	return r
}

// sentence describes a finding for another program: title, values or reason, and cause.
func sentence(f rule.Finding) string {
	i := item{Instance: f.Instance, Compare: f.Compare}
	i.Measured, i.Want = values(f)
	text := f.Heading() + ": " + i.says()
	if f.Reason != "" {
		text = f.Heading() + ": " + f.Reason
	}
	if f.Because != "" {
		text += "; because of " + f.Because
	}
	return text
}

// fileLine matches FILE:LINE, but not a directory of devices such as /sys/dev/block/253:2.
var fileLine = text.LazyRegexp(`^(/(?:[^s]|s[^y]|sy[^s]).*):([1-9][0-9]{0,8})$`)

// locations returns the files with the values, or else the machine.
func (a *Audit) locations(f rule.Finding) []sarifLocation {
	out := []sarifLocation{}
	for _, at := range f.At {
		if !strings.HasPrefix(at, "/") || strings.Contains(at, "*") {
			continue
		}
		p := sarifPhysical{Artifact: sarifArtifact{BaseID: machineBase}}
		name := at
		if m := fileLine().FindStringSubmatch(at); m != nil {
			line, _ := strconv.Atoi(m[2])
			name, p.Region = m[1], &sarifRegion{line}
		}
		p.Artifact.URI = strings.TrimPrefix(fileURI(name), "file:///")
		if p.Artifact.URI == "" {
			continue
		}
		out = append(out, sarifLocation{Physical: &p})
	}
	if len(out) == 0 {
		out = append(out, a.logical(f.Instance))
	}
	if f.Instance != "" && !slices.ContainsFunc(out, func(l sarifLocation) bool { return l.Logical != nil }) {
		out[0].Logical = a.logical(f.Instance).Logical
	}
	return out
}

// logical returns the machine or one of its items as a location.
func (a *Audit) logical(instance string) sarifLocation {
	name := a.Machine
	if instance != "" {
		name += "/" + instance
	}
	return sarifLocation{Logical: []sarifLogical{{Name: name, Kind: "resource"}}}
}

// fileURI returns a path as a URI (RFC 8089).
func fileURI(path string) string {
	if path == "" {
		path = "/"
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}
