package cli

import (
	"testing"

	"fettle.dev/fettle/internal/guide/rule"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
	internaltext "fettle.dev/fettle/internal/text"
)

// remindsOf matches the commands of other programs that reminders name.
var remindsOf = internaltext.LazyRegexp(`ethtool -k|satellite-maintain health check`)

// hasCommand matches reasons that name the command for an unknown fact.
var hasCommand = internaltext.LazyRegexp(`\b(fettle|oc|kubectl) [a-z]`)

// On every recorded machine each unknown finding, and each reminder, has the command that
// makes the missing fact known: in its reason or as ask.
func TestUnknownFindingsHaveACommand(t *testing.T) {
	unknown := 0
	for _, file := range recordedMachines(t) {
		audit, _ := checked(t, "--all", "--root", file)
		for _, f := range audit.Findings {
			switch f.State {
			case rule.Unknown:
				unknown++
				if f.Ask == "" && !hasCommand().MatchString(f.Reason) {
					t.Errorf("%s: %s: no command: %s", file, f.ID, f.Reason)
				}
			case rule.Reminded:
				if !aCommand().MatchString(f.Reason) && !hasCommand().MatchString(f.Reason) && !remindsOf().MatchString(f.Reason) {
					t.Errorf("%s: %s: no command: %s", file, f.ID, f.Reason)
				}
			}
		}
	}
	if unknown < testkitroot.Sample(50) {
		t.Errorf("%d unknown findings, of machines that were recorded in part", unknown)
	}
}
