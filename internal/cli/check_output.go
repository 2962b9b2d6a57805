package cli

import (
	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/ui"
)

// The formats that an audit has beside the common ones.
const (
	sarifFormat       ui.Format = "sarif"
	openMetricsFormat ui.Format = "openmetrics"
	htmlFormat        ui.Format = "html"
)

// printAudit prints an audit in the form asked for, and returns the gate's error.
func (a *app) printAudit(audit *report.Audit, all bool, gate error) error {
	var err error
	switch a.screen.Format {
	case ui.JSON, ui.YAML:
		return a.result(audit, gate)
	case sarifFormat:
		err = report.SARIF(a.screen.Out, a.version, all, audit)
	case openMetricsFormat:
		err = report.OpenMetrics(a.screen.Out, audit)
	case htmlFormat:
		err = report.FindingsHTML(a.screen.Out, audit)
	case ui.Markdown:
		err = report.FindingsMarkdown(a.screen.Out, audit, all)
	default:
		report.Findings(a.screen, audit, all)
	}
	if err != nil {
		return err
	}
	return gate
}
