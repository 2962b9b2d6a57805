package tune

import (
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/ui"
)

// Foreman adds the values that are not in force to a config report: those that another program
// changed or the kernel rejected as failed, those that wait for a reboot or a restart as pending,
// and undetermined, overridden, kept and refused ones as skipped. The last lines are the headline.
func (v *Verification) Foreman(r *ui.ForemanReport) {
	for _, c := range v.Values {
		as := ui.ForemanFailed
		switch c.Verdict {
		case plugin.OK, plugin.Dynamic, plugin.Unsupported:
			continue
		case plugin.NeedsReboot, plugin.NeedsRestart, plugin.NeedsDaemon, plugin.Deferred:
			as = ui.ForemanPending
		case plugin.Unknown, plugin.Overridden, plugin.Kept, plugin.Refused:
			as = ui.ForemanSkipped
		}
		message := string(c.Verdict) + ": " + value(c.Now) + ", want " + value(c.Want)
		for _, why := range []string{c.Unknown, c.Why} {
			if why != "" {
				message += "; " + why
			}
		}
		r.Add(as, "fettle verify "+SettingWords(c.Setting), message)
	}
	for _, line := range v.Headline.Lines {
		r.Add(ui.ForemanNote, "fettle verify", line)
	}
}
