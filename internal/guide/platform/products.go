package platform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	internaltext "fettle.dev/fettle/internal/text"
)

// Product returns the source of one product. On a machine with several instances, "NAME.*.OPTION"
// is the option of each instance, and "NAME.OPTION" is unknown.
func Product(p product.Product) Source {
	s := Source{Prefix: p.Name, Sets: []string{p.Name}}
	add := func(in fact.Input) {
		every := in
		every.Name = p.Name + ".*." + strings.TrimPrefix(in.Name, p.Name+".")
		s.Inputs = append(s.Inputs, in, every)
	}
	for _, o := range p.Parameters {
		add(fact.Input{Name: p.Name + "." + o.Name, Type: o.Type, Unit: o.Unit, Doc: o.Doc})
	}
	for _, in := range p.Inputs {
		add(in)
	}
	s.Open = func(ctx context.Context, m *Subject) Answers {
		all, err := p.Find(ctx, m.Host)
		if err == nil && len(all) == 0 {
			err = uncopied(m.Host, p)
		}
		if m.DryRun {
			for _, i := range all {
				if asks, ok := i.(product.Prober); ok {
					asks.Probe(ctx)
				}
			}
		}
		return &products{p, all, err}
	}
	return s
}

// uncopied returns an error if a copy may be missing files of a product.
func uncopied(h *host.Host, p product.Product) error {
	if !h.IsCopiedTree() {
		return nil
	}
	list, err := product.Read(h)
	if err != nil {
		return nil // not a machine, so it has no package list
	}
	patterns := p.Packages
	if len(patterns) == 0 {
		patterns = []string{p.Name, p.Name + "-server"}
	}
	for _, pattern := range patterns {
		for _, name := range slices.Sorted(maps.Keys(list.Versions)) {
			if ok, _ := path.Match(pattern, name); ok {
				return host.NotRecorded(fmt.Sprintf("%s has the package %s; the configuration of %s", list.At, name, p.Name))
			}
		}
		if why := list.Lacks(pattern); why != "" {
			return errors.New(why)
		}
	}
	return nil
}

type products struct {
	product product.Product
	all     []product.Installed
	err     error
}

func (p *products) Items(string) (names []string, unknown string) {
	if p.err != nil {
		return nil, p.err.Error()
	}
	for _, i := range p.all {
		names = append(names, i.Name())
	}
	return names, ""
}

func (p *products) Answer(input string) fact.Answer {
	rest := strings.TrimPrefix(input, p.product.Name+".")
	switch {
	case p.err != nil:
		return fact.Answer{Unknown: p.err.Error()}
	case len(p.all) == 0:
		return fact.Answer{}
	}
	for _, i := range p.all {
		if option, ok := strings.CutPrefix(rest, i.Name()+"."); ok && i.Name() != "" {
			return p.one(i, option)
		}
		if option, ok := strings.CutPrefix(rest, "."); ok && i.Name() == "" {
			return p.one(i, option) // the only item, without a name
		}
	}
	if len(p.all) > 1 {
		var names []string
		for _, i := range p.all {
			names = append(names, i.Name())
		}
		return fact.Answer{Unknown: fmt.Sprintf("%s of %s (%s), but the rule applies to one", internaltext.Count(len(p.all), "instance"), p.product.Name, strings.Join(names, ", "))}
	}
	return p.one(p.all[0], rest)
}

func (p *products) one(i product.Installed, option string) fact.Answer {
	at := slices.IndexFunc(p.product.Parameters, func(o product.Parameter) bool { return o.Name == option })
	if at < 0 {
		a := i.Answer(option)
		if a.From == "" && a.Value != nil {
			a.From = originOf(option, a.At)
		}
		return p.asRead(i, a)
	}
	o := p.product.Parameters[at]
	places := i.Option(option)
	source := "the default of " + p.product.Name
	if of, ok := i.(product.Defaulter); ok {
		if v, at := of.Default(o.Name); v != "" {
			o.Default, source = v, at
		}
	}
	a := p.parameter(o, places, source)
	if a.Value != nil {
		a.From = fact.Files
		if _, runs := places.Running.Get(); runs {
			a.From = fact.Running
		}
	}
	return p.asRead(i, a)
}

// asRead records in an answer the files that the program itself has accepted.
func (p *products) asRead(i product.Installed, a fact.Answer) fact.Answer {
	if asked, ok := i.(product.Prober); ok && a.From == fact.Files && asked.AsRead() {
		a.From = fact.FromProgram(p.product.Name)
	}
	return a
}

// records are inputs about the installation rather than the running configuration.
var records = []string{"version", "installed", "name", "config", "unit", "probed"}

// originOf returns the origin of an answer, by the place of the value: files, or the running
// product.
func originOf(option, at string) string {
	switch {
	case at == "" || slices.Contains(records, option):
		return ""
	case strings.HasPrefix(at, "/proc") || strings.HasPrefix(at, "/sys"):
		return fact.Running
	case strings.HasPrefix(at, "/") || strings.HasPrefix(at, "the default of"):
		return fact.Files
	}
	return fact.Running
}

// parameter returns the effective value of an option. byDefault is the source of the option's
// default.
func (p *products) parameter(o product.Parameter, places product.Option, byDefault string) fact.Answer {
	option, effective := o.Name, places.Effective()
	text, ok := effective.Get()
	source := effective.Source()
	switch {
	case effective.Unknown() != "":
		return fact.Answer{Unknown: effective.Unknown(), At: source}
	case !ok && o.Default == "":
		return fact.Answer{At: source}
	case !ok:
		text, source = o.Default, byDefault
	}
	if o.Read == nil {
		return Typed(text, o.Type, source)
	}
	v, err := o.Read(text)
	if err != nil {
		return fact.Answer{Unknown: fmt.Sprintf("%s: %v", option, err), At: source}
	}
	v, _ = fact.Plain(v)
	return fact.Answer{Value: v, At: source}
}
