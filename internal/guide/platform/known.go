package platform

import (
	"cmp"
	"slices"

	"fettle.dev/fettle/internal/fact"
)

// Known is what has been found out: answers to inputs, the items of sets, and why the rest
// is not known. An input without an answer is absent. The zero value knows nothing, and that
// nothing else is there.
type Known struct {
	answers  map[string]fact.Answer
	items    map[string][]string
	unlisted map[string]string // why a set is not known
	rest     string            // why all else is not known
}

// Give answers an input with a value, which was read at a place.
func (k *Known) Give(input string, value any, at string) {
	k.Put(fact.Answer{Value: value, At: at}, input)
}

// Unclear says why an input is not known.
func (k *Known) Unclear(input, at, why string) { k.Put(fact.Answer{Unknown: why, At: at}, input) }

// Put gives some inputs one answer.
func (k *Known) Put(a fact.Answer, inputs ...string) {
	if k.answers == nil {
		k.answers = map[string]fact.Answer{}
	}
	for _, input := range inputs {
		k.answers[input] = a
	}
}

// Add adds an item to a set that has it not yet.
func (k *Known) Add(set, item string) {
	if k.items == nil {
		k.items = map[string][]string{}
	}
	if !k.Has(set, item) {
		k.items[set] = append(k.items[set], item)
	}
}

// Unlisted says why a set is not known, or not all of it.
func (k *Known) Unlisted(set, why string) {
	if k.unlisted == nil {
		k.unlisted = map[string]string{}
	}
	k.unlisted[set] = why
}

// Rest says why nothing but what is answered and listed here is known.
func (k *Known) Rest(why string) { k.rest = why }

// Sort puts the items of each set in the order of their names.
func (k *Known) Sort() {
	for _, items := range k.items {
		slices.Sort(items)
	}
}

// Has is true for an item of a set.
func (k *Known) Has(set, item string) bool { return slices.Contains(k.items[set], item) }

// Given is the answer that an input was given; ok is false where it has none.
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

// Items implements Answers: in the order in which they were added, or were put.
func (k *Known) Items(set string) (names []string, unknown string) {
	return k.items[set], cmp.Or(k.unlisted[set], k.rest)
}
