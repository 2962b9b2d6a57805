package product

import (
	"context"

	"fettle.dev/fettle/internal/fact"
)

// Prober is an Installed whose own program can check its files (check --probe). Only this check
// runs the program.
type Prober interface {
	Probe(ctx context.Context)
	// AsRead reports whether the program has read and accepted the files. Option and Answer then
	// return the values that the program reads.
	AsRead() bool
}

// probed records how the program itself judged its files.
type probed struct {
	asked   bool
	Checked Checked
	Err     error // the reason that the check could not be made
}

// Take records the result of a dry run.
func (p *probed) Take(c Checked, err error) { p.asked, p.Checked, p.Err = true, c, err }

// AsRead implements Prober.
func (p *probed) AsRead() bool { return p.asked && p.Err == nil && p.Checked.Refused == "" }

// probeInputs returns the inputs about the dry run, which probeAnswer answers.
func probeInputs(product string) []fact.Input {
	return []fact.Input{
		{Name: product + ".probed", Type: fact.Truth, Doc: "whether the program was asked to read its files (--probe)"},
		{Name: product + ".refusal", Type: fact.Text, Doc: "why the program would not start with its files; empty if it would start, or without --probe"},
	}
}

// probeAnswer answers one of probeInputs; ok is false for any other input.
func (p *probed) probeAnswer(input, main string) (a fact.Answer, ok bool) {
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
