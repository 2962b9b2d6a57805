package tuned

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/text"
)

// Reason is the kind of a note.
type Reason string

// Reasons of notes.
const (
	DuplicateProfile       Reason = "DuplicateProfile"
	UnreadableProfile      Reason = "UnreadableProfile"
	RefusedProfile         Reason = "RefusedProfile"
	InvalidProfile         Reason = "InvalidProfile"
	InvalidRule            Reason = "InvalidRule"
	UnknownManagementState Reason = "UnknownManagementState"
	LabelsAcrossPools      Reason = "LabelsAcrossPools"
	PodLabelsIgnored       Reason = "PodLabelsIgnored"
	IncludeCircle          Reason = "IncludeCircle"
	UnknownPlugin          Reason = "UnknownPlugin"
	UnknownOption          Reason = "UnknownOption"
	MissingProfile         Reason = "MissingProfile"
	SameProfile            Reason = "SameProfile"
	EmptyMatch             Reason = "EmptyMatch"
	UnknownDeferred        Reason = "UnknownDeferred"
	ManagementStateIgnored Reason = "ManagementStateIgnored"
	NoPool                 Reason = "NoPool"
	SeveralPools           Reason = "SeveralPools"
	InvalidPool            Reason = "InvalidPool"
	Tie                    Reason = "Tie"
)

// Reasons lists all reasons. An object's condition has the first one that the object's notes
// contain.
var Reasons = []struct {
	Reason Reason
	// Invalid reports whether the reason makes a Tuned object invalid.
	Invalid bool
	Doc     string
}{
	{RefusedProfile, true, "a profile does what the operator does not allow; nodes that would get this profile stay unchanged"},
	{UnreadableProfile, true, "a profile cannot be read as TuneD's language; nodes that would get this profile stay unchanged"},
	{DuplicateProfile, true, "two profiles have one name and different content. The profile of the object `default` applies; if neither is in `default`, nodes that would get this profile stay unchanged"},
	{InvalidProfile, true, "a profile's name is not valid; nodes that would get this profile stay unchanged"},
	{InvalidRule, true, "a rule's profile name is not valid, or an item of `match` has no label, or a type other than node and pod. Such an item matches no node"},
	{UnknownManagementState, true, "`managementState` of the object `default` is unknown; no node is changed"},
	{LabelsAcrossPools, true, "the `machineConfigLabels` of a rule match more than one pool"},
	{PodLabelsIgnored, true, "an item needs a pod label, but the operator runs without `--pod-labels`; such an item matches no node"},
	{IncludeCircle, true, "profiles include each other in a circle; as in TuneD, reading ends where the circle closes, and nodes get the profiles"},
	{UnknownPlugin, true, "the type of a section of a profile is unknown; as in TuneD, the section is ignored, and nodes get the rest"},
	{UnknownOption, true, "a section of a profile has an unknown option; as in TuneD, the option is ignored, and nodes get the rest"},
	{MissingProfile, false, "a profile is in no Tuned object and not built in; the node itself must have it"},
	{SameProfile, false, "two profiles have the same name and the same content"},
	{EmptyMatch, false, "an empty `match` matches every node, regardless of `machineConfigLabels`"},
	{UnknownDeferred, false, "the annotation `tuned.openshift.io/deferred` is not one of always, update and never; it counts as never"},
	{ManagementStateIgnored, false, "`managementState` is only read in the object `default`"},
	{NoPool, false, "the `machineConfigLabels` of a rule match no pool"},
	{SeveralPools, false, "a node is in more than one custom pool; no `machineConfigLabels` match this node"},
	{InvalidPool, false, "a pool's selector cannot be read; the pool selects no nodes"},
	{Tie, false, "two rules of the same priority match a node and differ. The first one is used, in the order of their objects' names and then of their places"},
}

// rank returns the index of a reason in Reasons.
func rank(r Reason) int {
	for i := range Reasons {
		if Reasons[i].Reason == r {
			return i
		}
	}
	panic("reason " + r + " is not in the table")
}

// Note is a remark about an object or a decision.
type Note struct {
	Reason Reason `json:"reason"`
	// Object is the Tuned object, Path the field in it (spec.recommend[0].match[1]), Profile and
	// Line the position in a profile's text.
	Object  string `json:"object,omitempty"`
	Path    string `json:"path,omitempty"`
	Profile string `json:"profile,omitempty"`
	Line    int    `json:"line,omitempty"`
	Text    string `json:"text"`
}

// Object is a Tuned object with its notes.
type Object struct {
	Name       string `json:"name"`
	Generation int64  `json:"generation"`
	Valid      bool   `json:"valid"`
	// Notes are in the order of Reasons; those that make the object invalid come first.
	Notes []Note `json:"notes,omitempty"`
}

// maxTexts limits the texts in a condition's message.
const maxTexts = 10

// Condition returns the object's condition Valid, without a time.
func (o Object) Condition() StatusCondition {
	c := StatusCondition{Type: Valid, Status: metav1.ConditionTrue, Reason: AsExpected}
	if !o.Valid {
		c.Status, c.Reason = metav1.ConditionFalse, string(o.Notes[0].Reason)
	}
	var texts []string
	for _, n := range o.Notes {
		if !slices.Contains(texts, n.Text) {
			texts = append(texts, n.Text)
		}
	}
	if more := len(texts) - maxTexts; more > 0 {
		texts = append(texts[:maxTexts], text.Sprintf("and %d more", more))
	}
	c.Message = strings.Join(texts, "; ")
	return c
}

// finish sorts an object's notes, and sets Valid.
func (o *Object) finish() {
	slices.SortStableFunc(o.Notes, func(a, b Note) int { return rank(a.Reason) - rank(b.Reason) })
	o.Valid = len(o.Notes) == 0 || !Reasons[rank(o.Notes[0].Reason)].Invalid
}
