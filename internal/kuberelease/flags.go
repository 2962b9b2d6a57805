package kuberelease

import (
	"fmt"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// Flag is one command-line flag; Name is without its dashes.
type Flag struct{ Name, Value string }

// programFlags returns the names of a program's flags in a release.
func (r *Releases) programFlags(program string, of Release) []string {
	var out []string
	for key, spans := range r.flags {
		if name, ok := strings.CutPrefix(key, program+" "); ok {
			if _, ok := r.at(spans, of); ok {
				out = append(out, name)
			}
		}
	}
	slices.Sort(out)
	return out
}

// GoneFlags returns the flags of a program that an earlier release has and this one does not.
func (r *Releases) GoneFlags(program string, of, before Release) []string {
	has := r.programFlags(program, of)
	return slices.DeleteFunc(r.programFlags(program, before), func(name string) bool { return slices.Contains(has, name) })
}

// FlagSpan describes the releases that have a flag of a program, as FieldSpan does, and reports
// whether this one has it.
func (r *Releases) FlagSpan(program, name string, of Release) (span string, has bool) {
	spans := r.flags[program+" "+name]
	_, has = r.at(spans, of)
	return r.spanText(spans), has
}

// JudgeFlags lists the flags and feature gates with which a control-plane program of a release does
// not start. An underscore in a flag name means a dash, as in the programs themselves. OpenShift's
// programs accept unknown gates. For releases older than the known ones the verdict is empty.
func JudgeFlags(program string, flags []Flag, k Kubelet) (out Verdict) {
	table := Known()
	if k.Release < table.Oldest {
		return Verdict{}
	}
	gates, emulated := map[string]any{}, false
	for _, f := range flags {
		name := strings.ReplaceAll(f.Name, "_", "-")
		field := "--" + name
		switch span, known := table.FlagSpan(program, name, k.Release); {
		case name == "feature-gates":
			readGates(f.Value, gates)
		case name == "emulated-version":
			emulated = true
		case known:
		case span != "":
			out.Refused = append(out.Refused, Finding{field, fmt.Sprintf("%s %s does not have this flag (%s); remove it", program, k.Release, span)})
		case k.Release > table.Newest || k.OpenShift:
			out.Unknown = append(out.Unknown, Finding{field, fmt.Sprintf("unknown for %s %s", program, k.Release)})
		default:
			out.Refused = append(out.Refused, Finding{field, fmt.Sprintf("%s has no such flag%s", program, text.Suggest(name, table.programFlags(program, k.Release)))})
		}
	}
	if emulated && len(gates) > 0 {
		out.Unknown = append(out.Unknown, Finding{"--feature-gates", "unknown, because --emulated-version selects the feature gates of another release"})
		return out
	}
	if len(gates) == 0 {
		return out
	}
	j := &checker{table: table, kubelet: k, config: map[string]any{"featureGates": gates}, gates: map[string]bool{}}
	j.featureGates()
	for _, all := range []struct{ from, to *[]Finding }{{&j.out.Refused, &out.Refused}, {&j.out.Unknown, &out.Unknown}} {
		for _, f := range *all.from {
			*all.to = append(*all.to, Finding{"--feature-gates " + strings.TrimPrefix(f.Field, "featureGates."), f.Why})
		}
	}
	return out
}

// readGates adds the gates of a value such as A=true,B=false. From 1.31 on a gate may name its
// component, kube:A=true; gates of other components are ignored.
func readGates(value string, gates map[string]any) {
	for pair := range strings.SplitSeq(value, ",") {
		name, on, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if component, gate, ok := strings.Cut(name, ":"); ok {
			if component != "kube" {
				continue
			}
			name = gate
		}
		if name = strings.TrimSpace(name); name != "" {
			gates[name] = strings.TrimSpace(on)
		}
	}
}
