package experiment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/measure/prove"
	"fettle.dev/fettle/internal/measure/search"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
	"fettle.dev/fettle/internal/unit"
)

// try is a knob as requested: settings that get the same value, and the values.
type try struct {
	Name     string   // as requested
	Settings []string // at least one
	Values   []string // at least one
}

// another separates the settings of a knob if one of them has a path: a plus sign before KIND:.
// Without paths each plus sign does.
var another = text.LazyRegexp(`\+([a-z][a-z-]*:)`)

// namesOf returns the settings of a knob.
func namesOf(name string) []string {
	if !strings.Contains(name, "/") {
		return strings.Split(name, "+")
	}
	return strings.Split(another().ReplaceAllString(name, "\x00$1"), "\x00")
}

// CheckTry returns an error unless a word is an argument of --try.
func CheckTry(word string) error {
	_, err := parseTry(word)
	return err
}

// parseTry parses SETTING=VALUE,VALUE,... or SETTING+KIND:SETTING=VALUE,VALUE,...
func parseTry(word string) (t try, err error) {
	name, list, found := strings.Cut(word, "=")
	if !found || name == "" {
		return t, fmt.Errorf("%q: want SETTING=VALUE,VALUE, such as vm.swappiness=10,30,100", word)
	}
	t = try{Name: name, Settings: namesOf(name)}
	for value := range strings.SplitSeq(list, ",") {
		value = strings.TrimSpace(value)
		if value == "" || slices.Contains(t.Values, value) {
			return t, fmt.Errorf("%q: an empty value, or one value twice", word)
		}
		t.Values = append(t.Values, value)
	}
	for _, set := range t.sets(t.Values[0]) {
		if _, err := tune.ParseChange(set); err != nil {
			return t, err
		}
	}
	return t, nil
}

// sets returns the requests that give a value to all settings.
func (t try) sets(value string) (sets []string) {
	for _, name := range t.Settings {
		sets = append(sets, name+"="+value)
	}
	return sets
}

// space returns the space of a search on this machine: the settings of --space, then those of
// --try, each with the requested values and the present one. tested has a step for each setting.
// Settings of --space that the machine lacks are left out, with a message.
func (p *Experiment) space(ctx context.Context, o SearchOptions) (s search.Space, tested []tune.Step, err error) {
	seen := map[setting.Setting]string{}
	add := func(word, option string) error {
		t, err := parseTry(word)
		if err != nil {
			return ui.Exit(ui.Usage, fmt.Errorf("%s %w", option, err))
		}
		k, steps, err := p.knob(ctx, t)
		if err != nil {
			return fmt.Errorf("%s %s: %w", option, t.Name, err)
		}
		for _, step := range steps {
			if first, is := seen[step.Setting]; is {
				return ui.Exit(ui.Usage, fmt.Errorf("%s %s is the same setting as %s; give all values at once", option, t.Name, first))
			}
			seen[step.Setting] = t.Name
		}
		s.Knobs, tested = append(s.Knobs, k), append(tested, steps...)
		return nil
	}
	if o.Space != "" {
		here, err := p.shippedSpaceHere(ctx, o.Space)
		if err != nil {
			return s, nil, ui.Exit(ui.Usage, fmt.Errorf("--space %s: %w", o.Space, err))
		}
		var at []int
		for n, word := range here.try {
			switch err := add(word, "--space"); {
			case ctx.Err() != nil:
				return s, nil, ctx.Err()
			case err != nil:
				p.Screen.Say("left out: %v", err)
			default:
				at = append(at, n)
			}
		}
		if len(at) == 0 && len(o.Try) == 0 {
			return s, nil, ui.Exit(ui.Failed, fmt.Errorf("--space %s: this machine has none of its settings", o.Space))
		}
		s.Allowed = here.permits(slices.Clone(s.Knobs), at)
	}
	for _, word := range o.Try {
		if err := add(word, "--try"); err != nil {
			return s, nil, err
		}
	}
	return s, tested, nil
}

// knob returns a knob with its values: those requested and the present one. It plans each of them,
// so that values that this machine rejects are found before anything is measured.
func (p *Experiment) knob(ctx context.Context, t try) (k search.Knob, tested []tune.Step, err error) {
	k = search.Knob{Name: t.Name, Settings: t.Settings, Levels: slices.Clone(t.Values), Default: -1}
	refuse := func(code int, format string, args ...any) (search.Knob, []tune.Step, error) {
		return k, nil, ui.Exit(code, fmt.Errorf(format, args...))
	}
	for i, value := range t.Values {
		planner, _, err := p.Planner(ctx, tune.Request{Set: t.sets(value), Atomic: true})
		if err != nil {
			return k, nil, err
		}
		steps, left, err := (&prove.Tuning{Engine: p.Engine, Planner: planner}).Look(ctx)
		switch {
		case len(left) > 0:
			return refuse(ui.Failed, "%s: %s: %s", value, left[0].Verdict, left[0].Why)
		case errors.Is(err, prove.ErrNoChange) && k.Default >= 0:
			return refuse(ui.Usage, "%s and %s are the same value here", t.Values[k.Default], value)
		case errors.Is(err, prove.ErrNoChange):
			k.Default = i
			continue
		case err != nil:
			return k, nil, err
		case len(steps) != len(t.Settings):
			return refuse(ui.Failed, "with %s, %d of %d settings would change; want settings that have the same value now, and names of single settings", value, len(steps), len(t.Settings))
		case steps[0].Lifetime == setting.Reboot:
			return refuse(ui.Refused, "it takes effect at the next boot, so its effect cannot be measured here")
		case slices.ContainsFunc(steps, func(s tune.Step) bool {
			return s.Before.Unknown || !s.Before.Absent && s.Before.Text != steps[0].Before.Text
		}):
			return refuse(ui.Failed, "the settings have different values now, or values that cannot be read")
		}
		tested = steps
	}
	if len(tested) == 0 {
		return refuse(ui.Usage, "the machine already has this value; give others")
	}
	if k.Default < 0 {
		k.Default, k.Levels = len(k.Levels), append(k.Levels, tested[0].Before.String())
	}
	k.Sort(number)
	return k, tested, nil
}

// number parses a plain number, or one with a unit of size or time.
func number(word string) (float64, error) {
	if v, err := strconv.ParseFloat(word, 64); err == nil {
		return v, nil
	}
	if size, err := unit.ParseSize(word); err == nil {
		return float64(size), nil
	}
	d, err := unit.ParseDuration(word, time.Second)
	return d.Seconds(), err
}
