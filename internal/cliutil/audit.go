package cliutil

import (
	"cmp"

	"fettle.dev/fettle/internal/guide/findings"
	"fettle.dev/fettle/internal/ui"
)

// The formats that an audit has beside the common ones.
const (
	SARIF       ui.Format = "sarif"
	OpenMetrics ui.Format = "openmetrics"
	HTML        ui.Format = "html"
)

// AuditFormats are their names, for the annotation MoreFormats.
const AuditFormats = string(SARIF + " " + OpenMetrics + " " + HTML)

// Audit prints an audit in the form asked for, of which people see all findings or those
// that want something, and returns the gate's error. version is the program's.
func Audit(s *ui.Screen, version string, audit *findings.Audit, all bool, gate error) error {
	var err error
	switch s.Format {
	case ui.JSON, ui.YAML:
		return Result(s, audit, gate)
	case SARIF:
		err = findings.SARIF(s.Out, version, all, audit)
	case OpenMetrics:
		err = findings.OpenMetrics(s.Out, audit)
	case HTML:
		err = findings.HTML(s.Out, audit)
	case ui.Markdown:
		err = findings.Markdown(s.Out, audit, all)
	default:
		findings.Print(s, audit, all)
	}
	return cmp.Or(err, gate)
}
