package product

import (
	"context"

	"fettle.dev/fettle/internal/fact"
)

// Prober is an Installed whose program can be asked how it reads its files (check
// --probe). Nothing else runs it.
type Prober interface {
	Probe(ctx context.Context)
	// AsRead reports whether the program has read the files, and accepts them: what
	// Option and Answer say of them is then what the program has read.
	AsRead() bool
}

// Probed is what a program has said of its files when it was asked.
type Probed struct {
	asked   bool
	Checked Checked
	Err     error // why it could not be asked
}

// Take keeps the outcome of a dry run.
func (p *Probed) Take(c Checked, err error) { p.asked, p.Checked, p.Err = true, c, err }

// AsRead implements Prober.
func (p *Probed) AsRead() bool { return p.asked && p.Err == nil && p.Checked.Refused == "" }

// ProbeInputs are the inputs that Probed answers, of a product.
func ProbeInputs(product string) []fact.Input {
	return []fact.Input{
		{Name: product + ".probed", Type: fact.Truth, Doc: "whether the program is asked how it reads its files (--probe)"},
		{Name: product + ".refusal", Type: fact.Text, Doc: "why the program would not start with its files; empty where it would, or is not asked"},
	}
}

// ProbeAnswer answers one of ProbeInputs; ok is false for every other.
func (p *Probed) ProbeAnswer(input, main string) (a fact.Answer, ok bool) {
	switch input {
	case "probed":
		return fact.Answer{Value: p.asked}, true
	case "refusal":
		switch {
		case !p.asked:
			return fact.Answer{Value: ""}, true
		case p.Err != nil:
			return fact.Answer{Unknown: p.Err.Error(), At: main}, true
		}
		return fact.Answer{Value: p.Checked.Refused, At: main}, true
	}
	return fact.Answer{}, false
}
