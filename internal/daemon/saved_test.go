package daemon

import (
	"slices"
	"testing"
	"time"

	"fettle.dev/fettle/internal/engine/tune"
)

// An entry of the schedule is in force with the saved settings on top, and keeps them.
func TestScheduleKeepsSavedSettings(t *testing.T) {
	sel := &tune.Selection{Profiles: []string{"day", tune.SavedProfile}}
	var d Daemon
	if d.due([]string{"day"}, time.Time{}, nil, sel) {
		t.Error("the entry that is in force would be applied again and again")
	}
	if !d.due([]string{"night"}, time.Time{}, nil, sel) {
		t.Error("the next entry is not due")
	}
	if names := tune.WithSaved(sel, []string{"night"}); !slices.Equal(names, []string{"night", tune.SavedProfile}) {
		t.Errorf("the next entry selects %q", names)
	}
}
