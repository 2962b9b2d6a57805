package findings

import (
	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/ui"
)

// Foreman adds the bad findings of an audit to a config report: failed rules as failed, warnings
// as pending, undetermined rules as skipped. The last line is the headline. Foreman takes a report
// for one of Puppet if the source of the last line contains that word, as a finding about Puppet
// may.
func Foreman(r *ui.ForemanReport, a *Audit) {
	for _, f := range a.Findings {
		as := ui.ForemanSkipped
		switch f.State {
		case rule.Failed:
			as = ui.ForemanFailed
		case rule.Warned:
			as = ui.ForemanPending
		case rule.Unknown:
		default:
			continue
		}
		message := sentence(f)
		for _, x := range fixLines(f, a.where()) {
			message += "; fix: " + x.String()
		}
		r.Add(as, "fettle check "+f.ID, message)
	}
	for _, line := range a.Headline.Lines {
		r.Add(ui.ForemanNote, "fettle check", line)
	}
}
