package tuned

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	{RefusedProfile, true, "a profile does what the operator does not allow; nodes that would get it are held"},
	{UnreadableProfile, true, "a profile is not in TuneD's language; nodes that would get it are held"},
	{DuplicateProfile, true, "two profiles have one name and different texts: that of the object `default` holds, else nodes that would get it are held"},
	{InvalidProfile, true, "a profile's name cannot be one; nodes that would get it are held"},
	{InvalidRule, true, "a rule names no profile that there can be, or an item has no label or another type than node and pod; such an item holds nowhere"},
	{UnknownManagementState, true, "`managementState` of the object `default` is unknown: nothing is done"},
	{LabelsAcrossPools, true, "the `machineConfigLabels` of a rule are taken by more than one pool"},
	{PodLabelsIgnored, true, "an item asks for a label of pods, and the operator was not told to look at those: it holds nowhere"},
	{IncludeCircle, true, "profiles include each other in a circle: it ends where it began, as in TuneD, and nodes get them anyway"},
	{UnknownPlugin, true, "no plug-in is for a section of a profile: it is left out, and nodes get the rest, as with TuneD"},
	{UnknownOption, true, "a plug-in does not have an option that a profile gives it: it is left out, and nodes get the rest, as with TuneD"},
	{MissingProfile, false, "a profile is in no Tuned object and not built in: the node itself has to have it"},
	{SameProfile, false, "two profiles have one name and one text"},
	{EmptyMatch, false, "an empty `match` holds on every node, whatever `machineConfigLabels` say"},
	{UnknownDeferred, false, "the annotation `tuned.openshift.io/deferred` is not one of always, update and never: it counts as never"},
	{ManagementStateIgnored, false, "`managementState` counts in the object `default` only"},
	{NoPool, false, "no pool takes the `machineConfigLabels` of a rule"},
	{SeveralPools, false, "a node is in more than one custom pool: no `machineConfigLabels` hold on it"},
	{InvalidPool, false, "a pool's selector cannot be read: it selects nothing"},
	{Tie, false, "two rules of one priority hold on a node and want different things: the one that comes first by the name of its object, then by its place, decides"},
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
		texts = append(texts[:maxTexts], fmt.Sprintf("and %d more", more))
	}
	c.Message = strings.Join(texts, "; ")
	return c
}

// finish sorts an object's notes, and sets Valid.
func (o *Object) finish() {
	slices.SortStableFunc(o.Notes, func(a, b Note) int { return rank(a.Reason) - rank(b.Reason) })
	o.Valid = len(o.Notes) == 0 || !Reasons[rank(o.Notes[0].Reason)].Invalid
}
