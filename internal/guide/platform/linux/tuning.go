package linux

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/host"
)

// tuning provides the machine's active tuner and its profile.
var tuning = platform.Source{
	Prefix: "tuning",
	Inputs: inputs("tuning",
		fact.Input{Name: "profile", Type: fact.Text, Doc: "the profiles in force, of any tuner, separated by spaces; absent without a tuner"},
		fact.Input{Name: "profile_basis", Type: fact.Text, Doc: "the profiles in force, with an administrator's own profiles replaced by the packaged ones that they include"},
		fact.Input{Name: "local_profile", Type: fact.Text, Doc: "the profiles in force according to the machine's own files; absent if the files of TuneD are in a container"},
		fact.Input{Name: "by", Type: fact.Text, Doc: "the tuner, fettle or TuneD; absent without a tuner"},
		fact.Input{Name: "for_satellite", Type: fact.Truth, Doc: "whether the machine is known to be a Satellite or Capsule"},
		fact.Input{Name: "tuners", Type: fact.List, Doc: "enabled or running programs that set the same settings; numad only if the profiles set its settings"},
	),
	Open: func(ctx context.Context, s *platform.Subject) platform.Answers {
		t := &platform.Known{}
		t.Give("tuning.for_satellite", s.Answer("satellite.version").Value != nil, "")
		var holding []string
		profile, by, at := "", "", ""
		runs := 0 // number of TuneD processes
		all := others(ctx, s)
		for _, other := range all {
			if !other.Exclusive || other.Partial() {
				continue
			}
			holding = append(holding, other.Name)
			if other.Name == "TuneD" {
				runs = other.PID
			}
			if other.Name == "TuneD" && other.Profile != "" {
				profile, by, at = other.Profile, other.Name, activeProfile
			}
		}
		ours, why := fettlesOwn(s)
		if ours != "" {
			holding = append(holding, "fettle")
			profile, by, at = ours, "fettle", "the journal of fettle"
		}
		unclear := ""
		for _, other := range all {
			if !other.Partial() || !other.InForce() {
				continue
			}
			conflicts, err := overlaps(ctx, s, other, profile)
			if err != nil {
				unclear = fmt.Sprintf("%s is also in force; unknown whether %s sets the same values (%s): %v", other.Name, profile, other.Sets, err)
			}
			if conflicts {
				holding = append(holding, other.Name)
			}
		}
		slices.Sort(holding)
		t.Give("tuning.tuners", append([]string{}, holding...), "")
		if unclear != "" && len(holding) < 2 {
			t.Unclear("tuning.tuners", "", unclear)
		}
		if _, err := s.Host.Files.ReadDir(unitDir); len(holding) < 2 && host.Unknown(err) {
			t.Unclear("tuning.tuners", "", "unknown which services are enabled: "+host.Why(unitDir, err))
		}
		give := func(a fact.Answer) {
			t.Put(a, "tuning.profile", "tuning.profile_basis", "tuning.local_profile", "tuning.by")
		}
		switch _, recorded, there := read(s.Host, activeProfile); {
		case profile != "":
			t.Give("tuning.profile", profile, at)
			t.Give("tuning.profile_basis", basis(s.Host, profile), at)
			t.Give("tuning.local_profile", profile, at)
			t.Give("tuning.by", by, at)
		case why != "":
			give(fact.Answer{Unknown: why})
		case !there && recorded.Unknown == "" && runs != 0:
			// OpenShift's operator runs TuneD among the host's processes but with its own files.
			elsewhere := fact.Answer{Unknown: fmt.Sprintf("TuneD (process %d) has its files in a container; on OpenShift oc get profile -n openshift-cluster-node-tuning-operator names its profile", runs), At: activeProfile}
			give(elsewhere)
			t.Put(fact.Answer{At: activeProfile}, "tuning.local_profile")
		case !there && recorded.Unknown != "":
			give(recorded)
		}
		return t
	},
}

// unitDir is the directory of services enabled by an administrator.
const unitDir = "/etc/systemd/system"

// activeProfile is TuneD's record of the active profile. fettle's daemon writes it when it
// replaces TuneD.
const activeProfile = "/etc/tuned/active_profile"

// overlaps reports whether the profiles in force set a setting of another tuner.
func overlaps(ctx context.Context, s *platform.Subject, other override.Tuner, profiles string) (bool, error) {
	if profiles == "" {
		return false, nil
	}
	if s.Planned == nil {
		return false, errors.New("the profiles of that tuner are not available")
	}
	planned, err := s.Planned(ctx, strings.Fields(profiles))
	return other.Conflicts(planned), err
}

// others returns the other tuners that run or are enabled. For a copy without processes it returns
// the enabled ones.
func others(ctx context.Context, s *platform.Subject) []override.Tuner {
	all, _ := override.Tuners(ctx, s.Host)
	return all
}

// fettlesOwn returns the profiles in force according to fettle's journal, or why it cannot be read.
func fettlesOwn(s *platform.Subject) (profiles, why string) {
	if s.InForce == nil {
		return "", ""
	}
	names, err := s.InForce()
	if err != nil {
		return "", err.Error()
	}
	return strings.Join(names, " "), ""
}
