package machine

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"fettle.dev/fettle/internal/text"
)

// Limit is how many unhealthy machines a check puts up with: with more of them nothing is
// remediated.
type Limit struct {
	// Machines is the number; -1 if it cannot be read, and nothing is remediated.
	Machines int
	// Words are how it comes about: "40 % of 6 machines is 2 (2.4 rounded down)".
	Words string
}

// LimitOf is that of maxUnhealthy for a number of machines. A number may be written as a
// text. Below zero is zero; what is neither number nor percentage allows nothing, nor does
// a percentage over 100. OpenShift's API server takes none of these (the pattern of
// spec.maxUnhealthy in openshift/api, machine/v1beta1). Where one is stored anyway
// its controller would multiply, 400 % of 10 machines being 40, and never stop: who wrote
// it did not mean that there be no limit, which is what 100 % says.
func LimitOf(max *intstr.IntOrString, machines int) Limit {
	if max == nil {
		return Limit{machines, fmt.Sprintf("maxUnhealthy is not set, which is 100 %%: all of %s", text.Count(machines, "machine"))}
	}
	if max.Type == intstr.Int {
		return number(int(max.IntVal))
	}
	if p, ok := percentage(max); ok {
		if p > 100 {
			return Limit{-1, fmt.Sprintf("maxUnhealthy is %q, and a percentage is 100%% at the most", max.StrVal)}
		}
		return share(p, machines)
	}
	if n, err := strconv.Atoi(max.StrVal); err == nil {
		return number(n)
	}
	return Limit{-1, fmt.Sprintf("maxUnhealthy is %q, which is neither a number nor a percentage", max.StrVal)}
}

// percentage is that of a text such as "40%".
func percentage(max *intstr.IntOrString) (percent int, ok bool) {
	text, ok := strings.CutSuffix(max.StrVal, "%")
	if !ok || max.Type != intstr.String {
		return 0, false
	}
	percent, err := strconv.Atoi(text)
	return percent, err == nil
}

// Unread reports whether the limit cannot be read.
func (l Limit) Unread() bool { return l.Machines < 0 }

func number(n int) Limit {
	if n < 0 {
		return Limit{0, fmt.Sprintf("maxUnhealthy is %d, which counts as 0", n)}
	}
	return Limit{n, fmt.Sprintf("maxUnhealthy is %d", n)}
}

// share is a percentage of machines, rounded down.
func share(percent, machines int) Limit {
	product := max(percent, 0) * machines
	words := fmt.Sprintf("%d %% of %s is %d", percent, text.Count(machines, "machine"), product/100)
	if rest := product % 100; rest != 0 {
		words += fmt.Sprintf(" (%s rounded down)", strings.TrimRight(fmt.Sprintf("%d.%02d", product/100, rest), "0"))
	}
	return Limit{product / 100, words}
}

// Open reports whether machines are remediated with so many unhealthy ones.
func (l Limit) Open(unhealthy int) bool { return unhealthy <= l.Machines }

// Sentence is the arithmetic: "40 % of 25 machines is 10; 11 are unhealthy: nothing is
// remediated".
func (l Limit) Sentence(unhealthy int) string {
	are := fmt.Sprintf("%d are unhealthy", unhealthy)
	if unhealthy == 1 {
		are = "1 is unhealthy"
	}
	switch {
	case l.Unread():
		return l.Words + ": nothing is remediated"
	case !l.Open(unhealthy):
		return l.Words + "; " + are + ": nothing is remediated"
	case unhealthy == 0:
		return l.Words + "; none is unhealthy"
	}
	return l.Words + "; " + are + ": remediation is open"
}
