package agent

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/engine/override"
	"fettle.dev/fettle/internal/engine/plugin"
	"fettle.dev/fettle/internal/engine/tune"
	"fettle.dev/fettle/internal/setting"
	"fettle.dev/fettle/internal/text"
	"fettle.dev/fettle/kube/tuned"
)

// Reasons of the conditions. Those with prefix Tuned are the Node Tuning Operator's. Degraded has
// the first reason that applies.
const (
	Failed              = "Failed"              // Applied is False
	Deferred            = "Deferred"            // Applied is False until the next boot
	NoProfile           = "NoProfile"           // Applied is Unknown
	TunedError          = "TunedError"          // Degraded is True
	TunedDeferredUpdate = "TunedDeferredUpdate" // Degraded is True
	TunedSysctlOverride = "TunedSysctlOverride" // Degraded is True
	ValuesDrifted       = "ValuesDrifted"       // Degraded is True
	TunedWarning        = "TunedWarning"        // Degraded is False
)

// Conditions returns a node's conditions, without times.
func Conditions(out Outcome, wanted string) []tuned.StatusCondition {
	return []tuned.StatusCondition{applied(out, wanted), degraded(out)}
}

func applied(out Outcome, wanted string) tuned.StatusCondition {
	c := tuned.StatusCondition{Type: tuned.Applied, Status: metav1.ConditionTrue, Reason: tuned.AsExpected}
	switch fault := out.fault(); {
	case out.Decision.Waits:
		c.Status, c.Reason = metav1.ConditionFalse, Deferred
		c.Message = fmt.Sprintf("profile %s waits for the next boot of the node; %s", wanted, stays(out))
	case fault != "" && (out.Decision.Why != "" || out.Values == nil || out.Profile != wanted):
		c.Status, c.Reason = metav1.ConditionFalse, Failed
		c.Message = fault + "; " + stays(out)
	case out.Profile == "":
		c.Status, c.Reason, c.Message = metav1.ConditionUnknown, NoProfile, "no profile active"
	default:
		c.Message = summary(out)
	}
	c.Message = text.Truncate(c.Message, maxMessage)
	return c
}

// stays describes what remains in force instead of the requested profile.
func stays(out Outcome) string {
	if out.Profile == "" {
		return "no profile active"
	}
	return "profile " + out.Profile + " stays in force"
}

// fault returns why the request is not in force, or why the state is unknown; otherwise "".
func (o Outcome) fault() string {
	switch {
	case o.Decision.Why != "":
		return o.Decision.Why
	case o.Err != nil:
		return o.Err.Error()
	}
	return ""
}

func degraded(out Outcome) tuned.StatusCondition {
	c := tuned.StatusCondition{Type: tuned.Degraded, Status: metav1.ConditionTrue}
	g := group(out.Values)
	switch fault := out.fault(); {
	case fault != "":
		c.Reason, c.Message = TunedError, fault
	case len(g.rejected) > 0:
		c.Reason, c.Message = TunedError, list("rejected", g.rejected)
	case out.Decision.Waits:
		c.Reason, c.Message = TunedDeferredUpdate, "a change waits for the next boot of the node"
	case len(g.overridden) > 0:
		c.Reason, c.Message = TunedSysctlOverride, list("set by another source of higher precedence", g.overridden)
	case len(g.drifted) > 0:
		c.Reason, c.Message = ValuesDrifted, list("changed since they were set, not corrected", g.drifted)
	default:
		c.Status, c.Reason = metav1.ConditionFalse, tuned.AsExpected
		if len(g.open) > 0 {
			c.Reason, c.Message = TunedWarning, list("not in force", g.open)
		} else if out.Values != nil && len(out.Values.Problems) > 0 {
			c.Reason, c.Message = TunedWarning, out.Values.Problems[0].String()
		}
	}
	c.Message = text.Truncate(c.Message, maxMessage)
	return c
}

// groups holds the values that differ from the profile, grouped by cause.
type groups struct {
	rejected, overridden, drifted, open []tune.Checked
}

func group(v *tune.Verification) (g groups) {
	if v == nil {
		return g
	}
	for _, c := range v.Values {
		switch {
		case c.Verdict == plugin.OK, c.Verdict == plugin.Dynamic:
		case c.Verdict == plugin.Rejected:
			g.rejected = append(g.rejected, c)
		case c.Verdict == plugin.Overridden, contested(c):
			g.overridden = append(g.overridden, c)
		case c.Verdict == plugin.Drifted, c.Verdict == plugin.Differs:
			g.drifted = append(g.drifted, c)
		case c.Verdict == plugin.Kept && same(c):
		default:
			g.open = append(g.open, c)
		}
	}
	return g
}

// contested reports whether the kubelet sets a sysctl to a different value than requested.
func contested(c tune.Checked) bool {
	return c.Verdict == plugin.Kept && c.Setting.Kind == "sysctl" && slices.Contains(override.KubeletSysctls(), c.Setting.Name) && !same(c)
}

func same(c tune.Checked) bool {
	return strings.TrimSpace(c.Now.Text) == strings.TrimSpace(c.Want.Text)
}

// Limits of the texts that the agent writes to the API server.
const (
	maxMessage = 1000     // bytes of a condition's message
	maxListed  = 5        // values in a message
	maxValues  = 32 << 10 // bytes of the annotation
	maxText    = 200      // bytes of a value or a reason in the annotation
)

// list returns a sentence that lists values, at most maxListed.
func list(what string, all []tune.Checked) string {
	var texts []string
	for _, c := range all[:min(len(all), maxListed)] {
		texts = append(texts, describe(c))
	}
	if more := len(all) - maxListed; more > 0 {
		texts = append(texts, text.Sprintf("and %d more", more))
	}
	return what + ": " + strings.Join(texts, "; ")
}

// describe formats a value and its verdict.
func describe(c tune.Checked) string {
	line := fmt.Sprintf("%s: want %s, has %s: %s", showPlace(c.Setting), show(c.Want), show(c.Now), c.Verdict)
	if c.Why != "" {
		line += " (" + text.Truncate(c.Why, maxText) + ")"
	}
	return line
}

func showPlace(s setting.Setting) string {
	if s.Kind == plugin.OptionKind {
		return plugin.ShowOption(s)
	}
	return s.String()
}

func show(v setting.Value) string {
	switch {
	case v.Unknown:
		return "unknown"
	case v.Absent:
		return "nothing"
	}
	return text.Truncate(strings.TrimSpace(v.Text), maxText)
}

// summary formats the profile in force and the number of values for each verdict.
func summary(out Outcome) string {
	message := "profile " + out.Profile + " is in force"
	if out.Values == nil || len(out.Values.Values) == 0 {
		return message
	}
	var counts []string
	for _, v := range plugin.Verdicts {
		if n := out.Values.Counts[v]; n > 0 {
			counts = append(counts, text.Sprintf("%d %s", n, v))
		}
	}
	return fmt.Sprintf("%s: %s: %s", message, text.Count(len(out.Values.Values), "value"), strings.Join(counts, ", "))
}

// ValuesAnnotation is the Profile object's annotation with the verdict of each value. The kind has
// no field for them, but API servers keep annotations.
const ValuesAnnotation = "fettle.dev/values"

// ValuesSchema is the schema of the annotation.
const ValuesSchema = "fettle/node-values/v1"

// Values is the JSON content of ValuesAnnotation.
type Values struct {
	Schema  string                 `json:"schema"` // fettle/node-values/v1
	Profile string                 `json:"profile"`
	Counts  map[plugin.Verdict]int `json:"counts"`
	Values  []Value                `json:"values"`
	// Omitted is the number of values left out to stay within 32 KiB. Values that are in force are
	// left out first.
	Omitted int `json:"omitted,omitempty"`
}

// JSONBody marks Values as a value stored inside another JSON document.
func (Values) JSONBody() {}

// Value is one setting of a node.
type Value struct {
	Setting string         `json:"setting"` // such as sysctl:vm.swappiness
	Verdict plugin.Verdict `json:"verdict"`
	// Want is the requested value, Now the present one. Now is "" if it equals Want or does not
	// exist.
	Want string `json:"want,omitempty"`
	Now  string `json:"now,omitempty"`
	Why  string `json:"why,omitempty"`
}

// ValuesText returns the annotation's text; "" without a profile in force.
func ValuesText(out Outcome) (string, error) {
	if out.Values == nil {
		return "", nil
	}
	doc := Values{Schema: ValuesSchema, Profile: out.Profile, Counts: out.Values.Counts, Values: []Value{}}
	var fine []Value
	for _, c := range out.Values.Values {
		v := Value{Setting: showPlace(c.Setting), Verdict: c.Verdict, Want: show(c.Want), Why: text.Truncate(c.Why, maxText)}
		if !same(c) {
			v.Now = show(c.Now)
		}
		if c.Verdict == plugin.OK {
			fine = append(fine, v)
		} else {
			doc.Values = append(doc.Values, v)
		}
	}
	doc.Values = append(doc.Values, fine...)
	room := maxValues - 300 // the rest is for the frame and the counts
	for i, v := range doc.Values {
		text, err := json.Marshal(v)
		if err != nil {
			return "", err
		}
		if room -= len(text) + 1; room < 0 {
			doc.Omitted = len(doc.Values) - i
			doc.Values = doc.Values[:i]
			break
		}
	}
	text, err := json.Marshal(doc)
	return string(text), err
}

// Event is an event of the node for the API server.
type Event struct {
	Warning bool
	Reason  string
	Text    string
}

// maxEvents limits the events about single values per Look.
const maxEvents = 10

// Deeds returns the events for changes that a Look made, independent of earlier Looks.
func Deeds(now Outcome) []Event {
	var all []Event
	if len(now.Recovered) > 0 {
		all = append(all, event(true, "Recovered", "interrupted transactions %v undone", now.Recovered))
	}
	if now.Tx != 0 {
		switch now.Decision.Action {
		case Apply, Again:
			all = append(all, event(false, "Applied", "transaction %d: %s", now.Tx, summary(now)))
		case Restore:
			all = append(all, event(false, "Restored", "transaction %d: node restored", now.Tx))
		}
	}
	return all
}

func event(warning bool, reason, format string, args ...any) Event {
	return Event{warning, reason, text.Truncate(fmt.Sprintf(format, args...), maxMessage)}
}

// Events returns the events for what differs from the previous Look.
func Events(before, now Outcome, wanted string) []Event {
	all := Deeds(now)
	tell := func(warning bool, reason, format string, args ...any) {
		all = append(all, event(warning, reason, format, args...))
	}
	if now.Decision.Waits && !before.Decision.Waits {
		tell(false, Deferred, "profile %s waits for the next boot of the node", wanted)
	}
	if f := now.fault(); f != "" && f != before.fault() && !now.Busy {
		tell(true, Failed, "%s", f)
	}
	known := map[string]plugin.Verdict{}
	if before.Values != nil {
		for _, c := range before.Values.Values {
			known[c.Setting.String()] = c.Verdict
		}
	}
	told := 0
	g := group(now.Values)
	for _, c := range slices.Concat(g.rejected, g.overridden, g.drifted) {
		if known[c.Setting.String()] == c.Verdict {
			continue
		}
		if told++; told <= maxEvents {
			tell(true, "Value"+camel(string(c.Verdict)), "%s", describe(c))
		}
	}
	if more := told - maxEvents; more > 0 {
		tell(true, "ValuesNotInForce", "%d more values differ from profile %s", more, now.Profile)
	}
	return all
}

// camel converts needs-reboot to NeedsReboot.
func camel(word string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(word, "-") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}
