package cliutil

import (
	"cmp"

	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/ui"
)

// Output formats that only audits have.
const (
	SARIF       ui.Format = "sarif"
	OpenMetrics ui.Format = "openmetrics"
)

// AuditFormats is the value of the annotation MoreFormats for audits.
const AuditFormats = string(SARIF + " " + OpenMetrics)

// Audit prints an audit in the screen's format and returns gate. v selects the parts included
// in formats for people. version is the program's version.
func Audit(s *ui.Screen, version string, audit *findings.Audit, v findings.View, gate error) error {
	audit.Conclude()
	var err error
	switch s.Format {
	case ui.JSON, ui.YAML:
		return Result(s, audit, gate)
	case SARIF:
		err = findings.SARIF(s.Out, version, v.All, audit)
	case OpenMetrics:
		err = findings.OpenMetrics(s.Out, audit)
	case ui.HTML:
		findings.Page(s, audit)
	case ui.Markdown:
		err = findings.Markdown(s.Out, audit, v.All)
	default:
		findings.Print(s, audit, v)
	}
	return cmp.Or(err, gate)
}
