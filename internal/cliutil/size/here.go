package size

import (
	"fmt"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/guide/sizing"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/unit"
)

// machineFigure returns a figure of a machine as an input value, or why it is unknown.
type machineFigure func(f *fact.Facts) (text, unknown string)

func memoryHere(f *fact.Facts) (text, unknown string) {
	total, ok := f.Memory.TotalBytes.Get()
	return fmt.Sprintf("%dMiB", total/int64(unit.MiB)), unless(ok, f.Memory.TotalBytes.Unknown())
}

func cpusHere(f *fact.Facts) (text, unknown string) {
	count, ok := f.CPU.Count.Get()
	return fmt.Sprint(count), unless(ok, f.CPU.Count.Unknown())
}

func unless(known bool, why string) string {
	switch {
	case known:
		return ""
	case why == "":
		return "unknown"
	}
	return why
}

// assumeHere sets inputs that the user did not specify to this machine's figures. said
// describes them.
func assumeHere(h *host.Host, wish sizing.Request, figures map[string]machineFigure) (said string, err error) {
	var facts *fact.Facts
	var assumed []string
	for _, in := range wish.Inputs() {
		figure := figures[in.Name]
		if figure == nil || in.Given() {
			continue
		}
		if facts == nil {
			facts = fact.Collect(h)
		}
		text, unknown := figure(facts)
		if unknown != "" {
			return "", sizing.Bad(in.Name, "want a number; this machine's own number is unknown: %s", unknown)
		}
		if err := in.Assume(text, "this machine"); err != nil {
			return "", sizing.Bad(in.Name, "this machine's value is not accepted: %w", err)
		}
		assumed = append(assumed, "--"+in.Name+" "+in.String())
	}
	switch len(assumed) {
	case 0:
		return "", nil
	case 1:
		return assumed[0] + " is the value of this machine; give the flag for another machine", nil
	}
	return strings.Join(assumed, " and ") + " are the values of this machine; give the flags for another machine", nil
}
