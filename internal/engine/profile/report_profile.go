package profile

import (
	"fmt"

	"fettle.dev/fettle/internal/ui"
)

// Print prints a merged profile, each option with its place.
func Print(s *ui.Screen, p *Profile) {
	for _, u := range p.Units {
		head := "[" + u.Name + "]"
		if u.Type != u.Name {
			head += " type=" + u.Type
		}
		if u.Devices != "" && u.Devices != "*" {
			head += " devices=" + u.Devices
		}
		for _, c := range [][2]string{{"devices_udev_regex", u.DevicesUdevRegex}, {"cpuinfo_regex", u.CPUInfoRegex}, {"uname_regex", u.UnameRegex}} {
			if c[1] != "" {
				head += " " + c[0] + "=" + c[1]
			}
		}
		if !u.Enabled {
			head += " (disabled)"
		}
		fmt.Fprintf(s.Out, "\n%s\n", ui.Printable(head))
		g := ui.Grid{}
		for _, o := range u.Options {
			v := o.Value
			if len(o.Deferred) > 0 {
				v = "known when applied: " + o.Deferred[0].Text
			}
			g.Rows = append(g.Rows, []string{"  " + o.Name, v, o.Pos.String()})
		}
		if len(g.Rows) > 0 {
			g.Write(s)
		}
	}
}

// PrintRecommendation prints a recommendation with its reasons.
func PrintRecommendation(s *ui.Screen, r Recommendation) {
	fmt.Fprintln(s.Out, r.Profile)
	for _, c := range r.Why {
		fmt.Fprintf(s.Out, "  because %s\n", ui.Printable(c.String()))
	}
	if r.Pos.File != "" {
		fmt.Fprintf(s.Out, "  by %s\n", r.Pos)
	}
	for _, c := range r.Unknown {
		fmt.Fprintf(s.Out, "  not known here: %s\n", ui.Printable(c.String()))
	}
}
