package rule

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"fettle.dev/fettle/internal/text"
)

// place is a kind of name that a fix writes. Only names of its form are written into a file or
// call.
type place struct {
	what string
	form func() *regexp.Regexp
}

var (
	optionPlace    = place{"an option of the installer (--foreman-db-pool)", text.LazyRegexp(`^--?[a-z0-9][a-z0-9-]*$`)}
	hieraPlace     = place{"a key of Hiera (foreman::keepalive, postgresql::server::config_entries/work_mem)", text.LazyRegexp(`^[a-z][a-z0-9_]*(::[a-z][a-z0-9_]*)*(/[A-Za-z0-9_][A-Za-z0-9_.-]*)*$`)}
	directivePlace = place{"a directive of a unit (LimitNOFILE)", text.LazyRegexp(`^[A-Z][A-Za-z0-9]*$`)}
	fieldPlace     = place{"a field (systemReserved.cpu)", text.LazyRegexp(`^[A-Za-z][A-Za-z0-9_-]*(\.[A-Za-z][A-Za-z0-9_-]*)*$`)}
	sysctlPlace    = place{"a sysctl (vm.swappiness)", text.LazyRegexp(`^[A-Za-z0-9_][A-Za-z0-9_@:./-]*$`)}
	sysfsPlace     = place{"a file below /sys (/sys/kernel/mm/ksm/run)", text.LazyRegexp(`^/sys(/[A-Za-z0-9_@:.,+=!-]+)+$`)}
	unitPlace      = place{"a unit's setting (NAME.service/LimitNOFILE)", text.LazyRegexp(`^[A-Za-z0-9_@:.\\-]+/(active|enabled|Limit[A-Z]+|dropin/[A-Za-z0-9_@.-]+)$`)}
	artefactPlace  = place{"a file, or a place in words", text.LazyRegexp(`^[A-Za-z0-9/][A-Za-z0-9_@:./ -]*$`)}
)

func (p place) check(name string) error {
	if !p.form().MatchString(name) {
		return fmt.Errorf("%q is not the name of %s", name, p.what)
	}
	return nil
}

// EntryName returns an error for an invalid name of an artefact's entry.
func EntryName(artefact, name string) error {
	if err := artefactPlace.check(artefact); err != nil {
		return fmt.Errorf("artefact: %w", err)
	}
	switch {
	case artefact == Installer:
		return optionPlace.check(name)
	case artefact == "custom-hiera.yaml":
		return hieraPlace.check(name)
	case path.IsAbs(artefact):
		return directivePlace.check(name)
	}
	return fieldPlace.check(name)
}

// ChangeName returns an error for an invalid name of a setting that a fix changes and may write
// into files. The name must stay below its kind's root.
func ChangeName(name string) error {
	switch kind, key, _ := strings.Cut(name, ":"); {
	case strings.HasPrefix(name, "/proc/sys/"):
		return sysctlName(strings.TrimPrefix(name, "/proc/sys/"))
	case strings.HasPrefix(name, "/"):
		return sysfsName(name)
	case kind == "sysctl":
		return sysctlName(strings.TrimPrefix(key, "/proc/sys/"))
	case kind == "sysfs":
		return sysfsName(key)
	case kind == "hiera":
		return hieraPlace.check(key)
	case kind == "unit":
		return unitPlace.check(key)
	}
	return nil
}

func sysfsName(name string) error {
	if err := sysfsPlace.check(name); err != nil {
		return err
	}
	if path.Clean(name) != name {
		return fmt.Errorf("%q is not the name of %s: it contains %q", name, sysfsPlace.what, "..")
	}
	return nil
}

func sysctlName(name string) error {
	if err := sysctlPlace.check(name); err != nil {
		return err
	}
	slashed := name
	if i := strings.IndexAny(name, "./"); i >= 0 && name[i] == '.' { // sysctl.d(5): the first separator counts
		slashed = strings.NewReplacer(".", "/", "/", ".").Replace(name)
	}
	if path.Clean("/"+slashed) != "/"+slashed {
		return fmt.Errorf("%q is not the name of %s: it points outside /proc/sys", name, sysctlPlace.what)
	}
	return nil
}

// names checks the names that a fix writes, with a plain name for the item.
func (x *Fix) names(fault func(Pos, string, ...any), at Pos) {
	if x == nil {
		return
	}
	plain := func(name string) string {
		return strings.NewReplacer("{instance}", "x", "{unit}", "x.service").Replace(name)
	}
	if x.Artefact != "" {
		if err := artefactPlace.check(x.Artefact); err != nil {
			fault(at, "fix: artefact: %v", err)
			return
		}
	}
	for _, w := range x.Changes {
		if err := ChangeName(plain(w.Name)); err != nil {
			fault(w.Pos, "fix: changes: %v", err)
		}
	}
	for _, w := range x.Entries {
		if strings.Contains(x.Artefact, " ") {
			continue // words for a person, such as the kernel command line
		}
		if err := EntryName(x.Artefact, plain(w.Name)); err != nil {
			fault(w.Pos, "fix: entries: %v", err)
		}
	}
}
