package cli

import (
	"errors"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/experiment"
	"fettle.dev/fettle/internal/ui"
)

// findRuns returns the runs named on a command line: IDs, last, or files that contain runs.
// Without words it returns the latest run that ended.
func (a *app) findRuns(c *cobra.Command, words []string) (all []*evidence.Run, err error) {
	var m *tune.Machine
	store := func() (*tune.Machine, error) {
		if m == nil {
			if err := a.mustBeLive(); err != nil {
				return nil, err
			}
			m, err = a.machineAsIs(c.Context())
		}
		return m, err
	}
	if len(words) == 0 {
		m, err := store()
		if err != nil {
			return nil, err
		}
		runs, err := experiment.Store(m).All()
		if len(runs) > 0 {
			if err != nil {
				a.screen.Say("run ignored: %v", err) // it may have been the latest run
			}
			return runs[len(runs)-1:], nil
		}
		if err != nil {
			return nil, experiment.Damaged(m.Unreadable(err))
		}
		return nil, experiment.ErrNoRuns
	}
	for _, word := range words {
		if strings.TrimSpace(word) == "" {
			return nil, ui.Hinted(ui.Usage, errors.New("empty run ID"), "want a run ID or its beginning (see fettle runs list), or a file with records")
		}
		if filepath.Ext(word) == ".json" || filepath.Base(word) != word {
			runs, err := evidence.ReadFile(word)
			if err != nil {
				return nil, experiment.Damaged(err)
			}
			all = append(all, runs...)
			continue
		}
		m, err := store()
		if err != nil {
			return nil, err
		}
		r, err := experiment.Find(m, word)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}
