package platform

import (
	"cmp"
	"slices"

	"fettle.dev/fettle/internal/fact"
)

// Known collects answers to inputs and items of sets. rest is the reason why all else is unknown;
// if "", all else is absent.
type Known struct {
	answers  map[string]fact.Answer
	items    map[string][]string
	unlisted map[string]string // set to the reason why it is unknown
	rest     string            // reason why all other inputs are unknown; "" if they are absent
}

// Give answers an input with a value and the value's source.
func (k *Known) Give(input string, value any, at string) {
	k.Put(fact.Answer{Value: value, At: at}, input)
}

// Unclear makes an input unknown, with the reason why.
func (k *Known) Unclear(input, at, why string) { k.Put(fact.Answer{Unknown: why, At: at}, input) }

// Put sets the same answer for all inputs.
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

// Unlisted makes a set at least partly unknown, with the reason why.
func (k *Known) Unlisted(set, why string) {
	if k.unlisted == nil {
		k.unlisted = map[string]string{}
	}
	k.unlisted[set] = why
}

// Rest makes all other inputs unknown, with the reason why.
func (k *Known) Rest(why string) { k.rest = why }

// Sort sorts the items of each set by name.
func (k *Known) Sort() {
	for _, items := range k.items {
		slices.Sort(items)
	}
}

// Has reports whether a set has an item.
func (k *Known) Has(set, item string) bool { return slices.Contains(k.items[set], item) }

// Given returns the answer to an input; ok is false if it has none.
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

// Items implements Answers. The items are in the order in which they were added, or sorted after
// Sort.
func (k *Known) Items(set string) (names []string, unknown string) {
	return k.items[set], cmp.Or(k.unlisted[set], k.rest)
}
