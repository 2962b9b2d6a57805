package cli

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"fettle.dev/fettle/internal/audit"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/engine/why"
	"fettle.dev/fettle/internal/guide/platform"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/internal/ui"
)

func whyCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use: "why SETTING", Short: "Show what sets a value, and which source wins", Args: oneSetting,
		Long: `SETTING is one of: a sysctl (vm.swappiness); a path below /sys or /proc/sys; KIND:NAME,
as fettle diff prints it (unit:httpd.service/LimitNOFILE); a name that fettle facts or
fettle check prints.`,
		RunE: func(c *cobra.Command, args []string) error { return a.why(c.Context(), args[0]) },
	}
}

// oneSetting is the Args function of why. Two words are probably one name, typed with a blank.
func oneSetting(c *cobra.Command, args []string) error {
	if len(args) > 1 {
		return ui.Hinted(ui.Usage, fmt.Errorf("%q: want one setting, without blanks", strings.Join(args, " ")), "for example: fettle why "+text.Quote(strings.Join(args, ".")))
	}
	return cobra.ExactArgs(1)(c, args)
}

func (a *app) why(ctx context.Context, name string) error {
	s, err := setting.Parse(name)
	if err != nil {
		return ui.Exit(ui.Usage, err)
	}
	m, err := a.machineAsIs(ctx)
	if err != nil {
		return err
	}
	w, missing, err := why.Explain(ctx, m, s)
	if (err != nil || missing != nil) && w.Empty() && s.Kind == "sysctl" {
		if of, where := a.settingOf(ctx, m, name); of != (setting.Setting{}) {
			a.screen.Say("%s is the value of %s", name, of)
			w, missing, err = why.Explain(ctx, m, of)
		} else if where != "" {
			return ui.Hinted(ui.Failed, fmt.Errorf("%s is not a setting: %s", name, where), "name a setting, for example: fettle why vm.swappiness\nor for example: fettle why postgresql:INSTANCE/work_mem")
		}
	}
	switch {
	case err != nil:
		return err
	case a.data():
		return a.result(w, missing)
	case missing == nil || !w.Empty():
		why.Print(a.screen, &w)
	}
	return missing
}

// settingOf returns the setting whose value check and facts print under a name: disk.vda.scheduler
// is the attribute /sys/block/vda/queue/scheduler, postgresql.data.work_mem the parameter
// postgresql:data/work_mem. If the value cannot be set, where describes the value and its source;
// where is empty if the name is unknown.
func (a *app) settingOf(ctx context.Context, m *tune.Machine, name string) (of setting.Setting, where string) {
	settable := func(text string) bool {
		s, err := setting.Parse(text)
		if err == nil {
			s, err = m.Kinds.Resolve(s)
		}
		if err == nil {
			err = m.Kinds.CheckRequest(s, setting.Absent, m.Loader.Dirs)
		}
		if err != nil {
			return false
		}
		v, err := m.Kinds.Read(ctx, s)
		of = s
		return err == nil && !v.Absent
	}
	if parts := strings.SplitN(name, ".", 3); len(parts) == 3 && settable(parts[0]+":"+parts[1]+"/"+parts[2]) {
		return of, ""
	}
	subject := platform.NewSubject(ctx, m.Host, m.Kinds, audit.Sources())
	subject.Of(audit.Products())
	v := subject.Answer(name)
	if v.At == "" && v.Value == nil {
		return setting.Setting{}, ""
	}
	if settable(v.At) {
		return of, ""
	}
	value := v.Value
	switch number, ok := value.(float64); {
	case value == nil && v.Unknown == "":
		return setting.Setting{}, "" // its set of facts is empty
	case value == nil:
		return setting.Setting{}, "its value is unknown: " + v.Unknown
	case ok:
		value = strconv.FormatFloat(number, 'f', -1, 64)
	}
	return setting.Setting{}, fmt.Sprintf("fettle reads its value %v from %s", value, cmp.Or(v.At, "the system"))
}
