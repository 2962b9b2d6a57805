package platform

import (
	"cmp"
	"slices"

	"fettle.dev/fettle/internal/fact"
)

// Known collects answers to inputs, the items of sets, and the reason that the rest is unknown.
// Inputs without an answer are absent. In the zero value everything is absent.
type Known struct {
	answers  map[string]fact.Answer
	items    map[string][]string
	unlisted map[string]string // why a set is unknown
	rest     string            // why all else is unknown
}

// Give answers an input with a value and its source.
func (k *Known) Give(input string, value any, at string) {
	k.Put(fact.Answer{Value: value, At: at}, input)
}

// Unclear makes an input unknown, with the reason.
func (k *Known) Unclear(input, at, why string) { k.Put(fact.Answer{Unknown: why, At: at}, input) }

// Put gives inputs the same answer.
func (k *Known) Put(a fact.Answer, inputs ...string) {
	if k.answers == nil {
		k.answers = map[string]fact.Answer{}
	}
	for _, input := range inputs {
		k.answers[input] = a
	}
}

// Add adds an item to a set, once.
func (k *Known) Add(set, item string) {
	if k.items == nil {
		k.items = map[string][]string{}
	}
	if !k.Has(set, item) {
		k.items[set] = append(k.items[set], item)
	}
}

// Unlisted makes a set unknown, at least in part, with the reason.
func (k *Known) Unlisted(set, why string) {
	if k.unlisted == nil {
		k.unlisted = map[string]string{}
	}
	k.unlisted[set] = why
}

// Rest makes everything else unknown, with the reason.
func (k *Known) Rest(why string) { k.rest = why }

// Sort sorts the items of each set by name.
func (k *Known) Sort() {
	for _, items := range k.items {
		slices.Sort(items)
	}
}

// Has reports whether a set has an item.
func (k *Known) Has(set, item string) bool { return slices.Contains(k.items[set], item) }

// Given returns the answer of an input, if it has one.
func (k *Known) Given(input string) (a fact.Answer, ok bool) {
	a, ok = k.answers[input]
	return a, ok
}

// Answer implements Answers.
func (k *Known) Answer(input string) fact.Answer {
	if a, ok := k.Given(input); ok {
		return a
	}
	return fact.Answer{Unknown: k.rest}
}

// Items implements Answers, in the order of Add or as sorted.
func (k *Known) Items(set string) (names []string, unknown string) {
	return k.items[set], cmp.Or(k.unlisted[set], k.rest)
}
